"""Compilers of untrusted code can access only permitted files and processes."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from evo.trial.outcome import CompileFailed
from tests.processes import arguments_of
from tests.tiers import one_in
from workers.backends.cpu.compiler import CCompiler, find_compiler
from workers.backends.cuda.compilers.nvcc import NvccCompiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.build import Artefact, Unit
from workers.system import confine
from workers.system.sandbox import environment, sandbox_here, sandboxed

SECRET = "swordfish-4711"
KERNEL = "void kernel(float *x) { x[0] = WIDTH; }\n"
CUDA = 'extern "C" __global__ void kernel(float *x) { x[0] = WIDTH; }\n'

READING = {
    "include": '#include "{secret}"\n',
    "include by a macro": "#define QUOTE(x) #x\n#define FILE QUOTE({secret})\n#include FILE\n",
    "climbing include": '#include "{climbing}"\n',
    "probe": '#if __has_include("{secret}")\nint exists = ;\n#endif\n#error {marker}\n',
    "dependency": '#pragma GCC dependency "{secret}"\n#error {marker}\n',
    "link": '#include "linked.h"\n',
}
ASSEMBLED = {
    "incbin": 'asm(".section .rodata\\n.global kept\\nkept: .incbin \\"{secret}\\"\\n.text");\n',
    "incbin of adjacent texts": 'asm(".inc" "bin \\"{secret}\\"");\n',
    "incbin of an assembler macro": 'asm(".macro m a\\n.\\\\a \\"{secret}\\"\\n.endm\\nm incbin");\n',
    "assembler include": 'asm(".include \\"{secret}\\"");\n',
    "environment": 'asm(".incbin \\"/proc/self/environ\\"");\n',
    "another process": 'asm(".incbin \\"/proc/1/cmdline\\"");\n',
}


@pytest.fixture(params=["Landlock", "bubblewrap"])
def confined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Confine compilers with Landlock or bubblewrap; skip the test if the machine lacks it."""
    if request.param == "bubblewrap":
        if shutil.which("bwrap") is None:
            pytest.skip("bubblewrap is not installed")
        script = tmp_path / "confine.py"
        script.write_text(Path(confine.__file__).read_text().replace("_LEAST_ABI = 3", "_LEAST_ABI = 1000"))
        monkeypatch.setattr(confine, "__file__", str(script))
    sandbox_here.cache_clear()
    if request.param not in sandbox_here():
        sandbox_here.cache_clear()
        pytest.skip(f"{request.param} is not available here")
    yield request.param
    sandbox_here.cache_clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the folder of a family with a link to a secret file outside of the folder."""
    (tmp_path / "secret.h").write_text(f"{SECRET} = ;\n")
    folder = tmp_path / "family"
    folder.mkdir()
    (folder / "own.h").write_text("#define WIDTH 4\n")
    (folder / "linked.h").symlink_to(tmp_path / "secret.h")
    return folder


def filled(text: str, root: Path) -> str:
    secret = root.parent / "secret.h"
    for name, value in {"secret": str(secret), "climbing": f"{root}/../secret.h", "marker": "end"}.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def unit(source: str, root: Path, *, untrusted: bool = True) -> Unit:
    return Unit(source=source, architecture="native", entry="kernel", folders=(root,), root=root, untrusted=untrusted)


@pytest.fixture
def compiler() -> CCompiler:
    return CCompiler(find_compiler())


@pytest.mark.parametrize("text", [*READING.values(), *ASSEMBLED.values()], ids=[*READING, *ASSEMBLED])
def test_untrusted_source_cannot_read_files_of_the_machine(
    text: str, confined: str, compiler: CCompiler, root: Path
) -> None:
    made = compiler.compile(unit(filled(text, root) + '#include "own.h"\n' + KERNEL, root), timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert SECRET not in made.log
    assert "exists" not in made.log, "the output must not reveal whether the file exists"


@pytest.mark.parametrize("name", ["include", "incbin of adjacent texts", "incbin of an assembler macro"])
def test_trusted_source_can_read_files_of_the_machine(name: str, compiler: CCompiler, root: Path) -> None:
    """The test shows that only the sandbox refuses the sources of the other tests."""
    text = filled({**READING, **ASSEMBLED}[name], root)
    made = compiler.compile(unit(text + '#include "own.h"\n' + KERNEL, root, untrusted=False), timeout_s=60)
    assert SECRET in (made.log if isinstance(made, CompileFailed) else made.binary.decode(errors="replace"))


def test_untrusted_kernel_with_family_and_system_headers_compiles(
    confined: str, compiler: CCompiler, root: Path
) -> None:
    source = f'#include <math.h>\n#include <stdint.h>\n#include "own.h"\n{KERNEL}'
    alike = [compiler.compile(unit(source, root, untrusted=each), timeout_s=60) for each in (True, False)]
    assert all(isinstance(made, Artefact) for made in alike), alike
    assert alike[0].log == alike[1].log
    assert getattr(alike[0], "binary", None) == getattr(alike[1], "binary", "")


def test_sandboxed_command_has_no_network_and_reads_only_permitted_files(confined: str, tmp_path: Path) -> None:
    place, other = tmp_path / "place", tmp_path / "other"
    place.mkdir()
    other.mkdir()
    (other / "file").write_text("old")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"""
import os, socket, signal
def tried(what):
    try:
        what()
    except OSError:
        return "refused"
    return "done"
print(tried(lambda: socket.create_connection(("127.0.0.1", {port}), 2)),
      tried(lambda: open({str(other / "file")!r}, "w")), tried(lambda: os.truncate({str(other / "file")!r}, 0)),
      tried(lambda: os.kill({os.getpid()}, 0)), tried(lambda: os.listdir("/proc/{os.getpid()}")),
      tried(lambda: open("here", "w")))
"""
        command = sandboxed([sys.executable, "-c", program], writes=[place])
        done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["refused"] * 5 + ["done"], done.stderr
    assert (other / "file").read_text() == "old"


@pytest.mark.parametrize("installed", [True, False])
def test_sandboxed_python_imports_only_installed_packages(
    installed: bool, confined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages may be in any folder of PYTHONPATH (`pip install --target`). A user's own modules are unreadable."""
    (tmp_path / "grain.py").write_text("print('imported')")
    if installed:
        (tmp_path / "grain-1.0.dist-info").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    command = sandboxed([sys.executable, "-c", "import grain"])
    done = subprocess.run(command, cwd="/", env=environment(), capture_output=True, text=True, check=False)
    assert (done.stdout == "imported\n") is installed, done.stderr


def test_sandboxed_compiler_cannot_write_huge_files(confined: str, compiler: CCompiler, root: Path) -> None:
    made = compiler.compile(unit("char fill[1L << 32] = {1};\n#define WIDTH 1\n" + KERNEL, root), timeout_s=120)
    assert isinstance(made, CompileFailed)
    assert "File too large" in made.log


def test_sandboxed_command_ends_when_its_runner_is_killed(confined: str, tmp_path: Path) -> None:
    program = "import pathlib, sys; from workers.system.program import run; run(sys.argv[1:], pathlib.Path.cwd(), 300)"
    command = sandboxed(["sleep", "300"])
    runner = psutil.Popen([sys.executable, "-c", program, *command], cwd=tmp_path)
    deadline, asleep = time.monotonic() + 60, list[psutil.Process]()
    while not asleep:
        assert time.monotonic() < deadline
        started = runner.children(recursive=True)
        asleep = [each for each in started if arguments_of(each)[:1] == [command[-2]]]
        time.sleep(0.05)
    runner.kill()
    runner.wait()
    assert psutil.wait_procs(asleep, timeout=60)[1] == []


def test_environment_of_sandboxed_commands_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_EVO_MODEL_KEY", SECRET)
    monkeypatch.setenv("KERNEL_EVO_TOKEN", SECRET)
    assert SECRET not in environment().values()
    assert "PATH" in environment()


def test_missing_sandbox_support_is_detected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "confine.py"
    script.write_text(f"raise SystemExit({confine.UNCONFINED})")
    monkeypatch.setattr(confine, "__file__", str(script))
    sandbox_here.cache_clear()
    try:
        assert sandbox_here() == ""
        assert CCompiler(find_compiler()).sandbox == ""
    finally:
        sandbox_here.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("text", one_in(3, READING.values()), ids=READING)
def test_untrusted_cuda_source_cannot_read_files_of_the_machine(text: str, confined: str, root: Path) -> None:
    try:
        compiler = NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))
    source = filled(text, root) + '#include "own.h"\n' + CUDA
    cuda = Unit(
        source=source, architecture="sm_80", entry="kernel", language="cuda", folders=(root,), root=root, untrusted=True
    )
    made = compiler.compile(cuda, timeout_s=60)
    assert isinstance(made, CompileFailed)
    assert SECRET not in made.log
    assert "exists" not in made.log


@pytest.mark.slow
def test_untrusted_cuda_kernel_with_headers_compiles(confined: str, root: Path) -> None:
    try:
        compiler = NvrtcCompiler()
    except NoNvrtcError as error:
        pytest.skip(str(error))
    source = f'#include <cuda_fp16.h>\n#include <cuda/std/limits>\n#include "own.h"\n{CUDA}'
    cuda = Unit(
        source=source, architecture="sm_90", entry="kernel", language="cuda", folders=(root,), root=root, untrusted=True
    )
    assert isinstance(compiler.compile(cuda, timeout_s=60), Artefact)


@pytest.mark.parametrize(
    "text", one_in(3, ["", *READING.values(), *ASSEMBLED.values()]), ids=["nothing", *READING, *ASSEMBLED]
)
def test_untrusted_source_under_nvcc_cannot_read_files_of_the_machine(text: str, confined: str, root: Path) -> None:
    nvcc = NvccCompiler()
    if nvcc.version == "without nvcc":
        pytest.skip("nvcc is not installed")
    cuda = Unit(
        source=f'{filled(text, root)}#include <vector>\n#include "own.h"\n{CUDA}',
        architecture="sm_80",
        entry="kernel",
        language="cuda",
        compiler="nvcc",
        folders=(root,),
        root=root,
        untrusted=True,
    )
    made = nvcc.compile(cuda, timeout_s=100)
    assert isinstance(made, Artefact) or text, made
    said = made.log if isinstance(made, CompileFailed) else made.binary.decode(errors="replace")
    assert SECRET not in said
    assert "exists" not in said
