"""The command ``doctor`` reports missing software and hardware, the features that need it, and how to get it."""

import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from evo.cli.arguments.options import Json, examples
from evo.cli.console.output import console, print_json, styled, table
from evo.cli.exits import Exit
from evo.cli.service.locations import LocalDatabase
from evo.cli.service.options import Db
from evo.device.separation import LANDLOCK, OTHER_USER, SECCOMP, level, missing
from evo.errors import EvoError
from evo.plugins import GROUPS, unloadable

if TYPE_CHECKING:
    from evo.cli.service.locations import LocalDatabase
    from evo.device import Device


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check of the command ``doctor``.

    Attributes:
        what: name of the checked item, e.g. a compiler, a folder or a GPU.
        found: True if the item works. For a GPU, True if no other program uses it.
        detail: what the check found, e.g. a version, a path or an error.
        needed_for: feature that does not work without the checked item. Empty if no feature depends on this item alone.
        remedy: how to correct the problem if `found` is False. It may be empty.
    """

    what: str
    found: bool
    detail: str
    needed_for: str = ""
    remedy: str = ""


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("kernel-evo doctor", "kernel-evo doctor --json"))(doctor)


def doctor(db: Db = None, as_json: Json = False) -> None:
    """Check devices, compilers and tools. Report what is missing, which feature needs it, and how to get it."""
    from evo.cli.service.devices import local_devices

    try:
        devices = local_devices()
    except EvoError:  # the findings state the cause
        devices = []
    findings = list(look_around(LocalDatabase.of(db), devices))
    if as_json:
        print_json({"devices": devices, "findings": findings})
    else:
        print_findings(devices, findings)
    raise typer.Exit(Exit.DONE if devices else Exit.NOTHING_FOUND)


def look_around(location: "LocalDatabase", devices: "list[Device]") -> Iterator[Finding]:
    """Check each compiler, tool, library and folder that kernel-evo may need, each GPU, the service and its workers.

    Args:
        location: local database whose folder, service and workers are checked.
        devices: devices of this machine.
    """
    from evo.cli.service.devices import cache_folder

    yield _compiler()
    yield _separation()
    yield _sandbox()
    yield _nvrtc(devices)
    yield _cuda()
    yield from _sharing(devices)
    yield _tool("nvidia-smi", needed_for="CUDA devices", remedy="install the NVIDIA driver")
    yield _tool("compute-sanitizer", needed_for="memory and race checks of CUDA kernels", remedy="install CUDA's tools")
    yield _tool("nvcc", needed_for='families with compiler = "nvcc"', remedy="install the CUDA toolkit")
    yield _tool("ncu", needed_for="profiles of CUDA kernels", remedy="install Nsight Compute")
    yield _package("torch", needed_for="PyTorch as a baseline", remedy="install torch into this environment")
    yield _package(
        "triton",
        needed_for="kernels in Triton",
        remedy="pip install -e '.[triton]' on the machines whose workers compile",
    )
    for name, provider in (("openai", "the OpenAI protocol"), ("anthropic", "Anthropic's protocol")):
        yield _package(name, needed_for=f"evolve with {provider}", remedy="pip install -e '.[evolve]'")
    yield _package("mcp", needed_for="kernel-evo mcp", remedy="pip install -e '.[mcp]'")
    yield from _plugins()
    remedy = "make it writable; otherwise every kernel is compiled again in each run"
    yield _temporary()
    yield _folder("cache", cache_folder(), needed_for="speed", remedy=remedy)
    parent = location.database.parent
    yield _folder("database", parent, needed_for="searching", remedy="make it writable, or use another --db")
    yield _service(location)
    yield from _workers(location)


def _plugins() -> Iterator[Finding]:
    """Report each extension in another package that cannot be imported."""
    for group in GROUPS:
        for entry, error in unloadable(group):
            yield Finding(
                what=f"{group.noun} {entry.name}",
                found=False,
                detail=f"{entry.value} cannot be loaded ({error!r:.200})",
                needed_for=f"the {group.noun} {entry.name}",
                remedy="update or uninstall its package",
            )


def _compiler() -> Finding:
    """Check the C compiler by compiling an empty kernel, because its assembler or linker may be missing."""
    from evo.trial.explain import first_lines
    from evo.trial.outcome import CompileFailed
    from workers.backends.cpu.compiler import CCompiler, find_compiler
    from workers.build import Unit

    try:
        compiler = CCompiler(find_compiler())
        unit = Unit(source="void anchor(void) {}\n", architecture="native", entry="anchor")
        detail, remedy = compiler.product, ""
        if isinstance(failed := compiler.compile(unit, timeout_s=60.0), CompileFailed):
            detail = f"{detail}, which does not compile an empty function"
            remedy = f"set CC to a different compiler: {first_lines(failed.log, 2)}"
    except EvoError as error:
        detail, remedy = "none that works", str(error)
    return Finding(what="C compiler", found=not remedy, detail=detail, needed_for="CPU devices", remedy=remedy)


_REMEDIES = {
    OTHER_USER: "run workers as root, e.g. in a container, so that kernels run as a separate user",
    LANDLOCK: "use Linux 5.13 or later with `landlock` among its security modules (/sys/kernel/security/lsm)",
    SECCOMP: "use Linux on x86-64 or arm64 with seccomp filters",
}


def _separation() -> Finding:
    """Run an empty kernel to check how CPU kernels are isolated from the process that verifies them."""
    from evo.cli.service.devices import cache_folder
    from workers.backends.cpu.compiler import CCompiler, find_compiler
    from workers.backends.cpu.support import separation_here

    needed_for = "CPU kernels from untrusted sources, and the policy field min_separation"
    try:
        reported = separation_here(CCompiler(find_compiler()), cache_folder())
    except (EvoError, OSError) as error:
        detail = "no kernel process can be started"
        return Finding(what="separation", found=False, detail=detail, needed_for=needed_for, remedy=str(error))
    return Finding(
        what="separation",
        found=level(reported) == "full",
        detail=f"level {level(reported)}: {reported}",
        needed_for=needed_for,
        remedy="; ".join(_REMEDIES[part] for part in missing(reported)),
    )


def _sandbox() -> Finding:
    """Check which sandbox can confine compilers of unreviewed code, and whether the C compiler runs in it."""
    from workers.backends.cpu.compiler import CCompiler, find_compiler
    from workers.system.sandbox import sandbox_here

    works, remedy = (
        sandbox_here(),
        "use Linux 6.2 or later with `landlock` among its security modules, or install bubblewrap",
    )
    with suppress(EvoError):
        compiler = CCompiler(find_compiler())
        if works and not compiler.sandbox:
            works, remedy = "", f"set CC to a compiler that runs in the sandbox; {compiler.product} does not"
    return Finding(
        what="sandbox",
        found=bool(works),
        detail=f"compilers of proposed code: {works or 'none'}",
        needed_for="unreviewed code, and the policy field untrusted",
        remedy="" if works else remedy,
    )


def _nvrtc(devices: "list[Device]") -> Finding:
    """Compile a small kernel for the architecture of every GPU of this machine and of every known target."""
    from evo.device.estimate.target import architectures
    from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler, failures

    needed_for = "CUDA devices, and estimates for GPUs that this machine lacks"
    try:
        compiler = NvrtcCompiler()
    except NoNvrtcError as error:
        detail = "not installed"
        return Finding(what="CUDA compiler", found=False, detail=detail, needed_for=needed_for, remedy=str(error))
    own = (device.architecture for device in devices if device.kind == "cuda")
    wanted = list(dict.fromkeys([*own, *architectures()]))
    failed = failures(compiler, wanted)
    detail = f"NVRTC {compiler.toolkit[0]}.{compiler.toolkit[1]}"
    worked = ", ".join(each for each in wanted if each not in failed)
    detail += f", compiles for {worked}" if worked else ", compiles nothing"
    remedy = "; ".join(f"{architecture}: {reason}" for architecture, reason in failed.items())
    return Finding(what="CUDA compiler", found=not failed, detail=detail, needed_for=needed_for, remedy=remedy)


def _cuda() -> Finding:
    from workers.backends.cuda.device import DRIVER

    devices, obstacle = DRIVER.look()
    detail = ", ".join(device.model for device in devices) or "no usable GPU"
    return Finding(what="CUDA", found=obstacle is None, detail=detail, needed_for="CUDA devices", remedy=obstacle or "")


def _sharing(devices: "list[Device]") -> Iterator[Finding]:
    """Report which other processes use each GPU of this machine."""
    from workers.backends.cuda.machine import nvml

    for device in devices:
        if device.kind != "cuda":
            continue
        users = ", ".join(nvml.strangers(device.uuid))
        yield Finding(
            what=device.model,
            found=not users,
            detail=f"in use by {users}" if users else "no other program uses it",
            needed_for="undisturbed times",
            remedy=f"stop other programs on it: {users}",
        )


def _package(name: str, *, needed_for: str, remedy: str) -> Finding:
    found = importlib.util.find_spec(name) is not None
    detail = "installed" if found else "not installed"
    return Finding(what=name, found=found, detail=detail, needed_for=needed_for, remedy=remedy)


def _tool(name: str, *, needed_for: str, remedy: str) -> Finding:
    path = shutil.which(name)
    return Finding(what=name, found=path is not None, detail=path or "not found", needed_for=needed_for, remedy=remedy)


def _folder(what: str, path: Path, *, needed_for: str, remedy: str) -> Finding:
    from evo.cli.service.devices import unwritable

    reason = unwritable(path)
    detail = str(path) if reason is None else f"{path}: {reason}"
    return Finding(what=what, found=reason is None, detail=detail, needed_for=needed_for, remedy=remedy)


def _temporary() -> Finding:
    """Check the temporary folder, because compiled kernels are loaded from it."""
    from workers.system.exhaustion import MachineExhausted, refuse_noexec

    folder, remedy = "no writable folder", ""
    try:
        folder = tempfile.gettempdir()
        refuse_noexec(Path(folder))
    except MachineExhausted as error:
        remedy = str(error)
    except OSError as error:
        remedy = f"set TMPDIR to a writable folder: {error.strerror or error}"
    return Finding(what="temporary files", found=not remedy, detail=folder, needed_for="CPU devices", remedy=remedy)


def _service(location: "LocalDatabase") -> Finding:
    from db.engine.ownership import running_service

    running = running_service(location.database) if location.database.parent.exists() else None
    detail = "no service runs on this database; commands start one when they need one"
    if running is not None:
        detail = f"{running.url or 'starting'} (process {running.pid})"
    return Finding(what="service", found=True, detail=detail)


def _workers(location: "LocalDatabase") -> Iterator[Finding]:
    """Report each connected worker with a problem, e.g. a device that another worker also offers."""
    from db.engine.key import local_key
    from db.engine.ownership import running_service
    from evo.client import Client
    from evo.messages.worker_state import SILENT_S, silence

    running = running_service(location.database) if location.database.parent.exists() else None
    if running is None or running.url is None:
        return
    try:
        with Client(running.url, token=local_key(location.database), attempts=1) as client:
            workers = client.workers().items
    except EvoError:
        return  # the service is starting or ending
    for each in workers:
        if each.note is not None and each.left_at is None and silence(each) <= SILENT_S:
            what, detail = f"worker {each.name}", f"{each.id}: {each.note}"
            yield Finding(what=what, found=False, detail=detail, needed_for="undisturbed measurements")


def print_findings(devices: "list[Device]", findings: list[Finding]) -> None:
    """Print the devices and the result of each check."""
    from rich.text import Text

    out = console()
    rows = table("device", "model", "architecture", "limits", "ceilings")
    for device in devices:
        rows.add_row(Text(device.kind, "bold"), device.model, device.architecture, _limits(device), _ceilings(device))
    out.print(rows if devices else styled(("No device found to search on.", "red")))
    out.print()
    rows = table("", "what", "found", "needed for", "remedy")
    for each in findings:
        mark = Text("✓", "green") if each.found else Text("–", "yellow")
        rows.add_row(
            mark, Text(each.what, "bold"), Text(each.detail), each.needed_for, Text("" if each.found else each.remedy)
        )
    out.print(rows)


def _limits(device: "Device") -> str:
    return ", ".join(
        f"{name.removesuffix('_bytes')} {_size(value) if name.endswith('_bytes') else f'{value:g}'}"
        for name, value in device.limits.items()
    )


def _size(count: float) -> str:
    return (
        f"{count / (1 << 20):g} MiB"
        if count >= 1 << 20
        else f"{count / 1024:g} KiB"
        if count >= 1024
        else f"{count:g} B"
    )


def _ceilings(device: "Device") -> str:
    if device.ceilings is None:
        return "unknown"
    rates = [f"{name} {rate / 1e9:.4g} GFLOP/s" for name, rate in device.ceilings.flops_per_s.items()]
    memory = f"{device.ceilings.bytes_per_s / 1e9:.3g} GB/s"
    if device.ceilings.bytes_source in (None, device.ceilings.source):
        return ", ".join([*rates, memory, device.ceilings.source])
    return ", ".join([*rates, device.ceilings.source, memory, device.ceilings.bytes_source])
