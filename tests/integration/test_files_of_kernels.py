"""Kernels read only the system's libraries by system calls, and `access()` finds files in private folders."""

import errno
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from evo.device import Device
from evo.trial.objective import Objective
from tests.integration.cheats import source
from tests.integration.workbench import without_capability
from tests.measured import measured
from workers.backends import HostSession, driver
from workers.backends.cpu.process import started
from workers.build import Artefact, Unit
from workers.build.kernel import Argument
from workers.system.private_folders import kernels_may_enter

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="system calls of Linux on x86-64"
)

DEVICE = Device(kind="cpu", model="any", architecture="any", uuid="any")
ARGUMENTS = (
    Argument(name="x", role="input", dtype="float32", shape=(1000,)),
    Argument(name="y", role="output", dtype="float32", shape=(1000,)),
)
FULL = "another user, Landlock, seccomp"
DAC_READ_SEARCH = 2
IOCTL_ONLY = 3
"""Flags of `open` with which a file can only be used for `ioctl`."""

READ = """
static long reads(const char *path, long flags) {
  static char text[16]; long file = ask(SYS_open, (long)path, flags, 0);
  if (file < 0) return file;
  long got = ask(SYS_read, file, (long)text, sizeof text);
  ask(SYS_close, file, 0, 0);
  return got;
}
static long reads_in(const char *folder, const char *name) {
  static char text[16]; long at = ask(SYS_open, (long)folder, 010000000, 0), file = ask(SYS_openat, at, (long)name, 0);
  long got = file < 0 ? file : ask(SYS_read, file, (long)text, sizeof text);
  ask(SYS_close, file, 0, 0); ask(SYS_close, at, 0, 0);
  return got;
}
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> HostSession:
    opened = driver("cpu").open(DEVICE, Objective(), measured(tmp_path_factory.mktemp("cache")))
    assert isinstance(opened, HostSession)
    return opened


@pytest.fixture(params=["another user", "the worker's user"])
def user(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run kernels as a different user, or as the user of this process, like a worker without root."""
    if request.param == "another user" and os.geteuid() != 0:
        pytest.skip("only the superuser changes the user of a process")
    if request.param == "the worker's user":
        monkeypatch.setattr(started, "_new_user", lambda: 0)
    yield request.param


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """Return a folder of mode 0700 with a file of mode 0600."""
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    (folder / "evo.db").write_text("secret")
    (folder / "evo.db").chmod(0o600)
    return folder


def asked(session: HostSession, folder: Path, calls: Sequence[str], *flags: str) -> list[int]:
    """Return the results of C expressions that a kernel evaluates."""
    body = "right(x, y);" + "".join(f"y[{place}] = {call};" for place, call in enumerate(calls))
    text = source("asks", body).replace("void f(", f"{READ}void f(", 1)
    unit = Unit(source=text, architecture="native", entry="f", flags=("-w", *flags))
    artefact = driver("cpu").compiler().compile(unit, timeout_s=60)
    assert isinstance(artefact, Artefact), artefact
    (folder / "kernel.so").write_bytes(artefact.binary)
    kernel = session.load(folder / "kernel.so", "f", ARGUMENTS, None)
    buffers = session.allocate(ARGUMENTS, {})
    session.call(kernel, buffers)
    return [int(result) for result in buffers.read("y")[: len(calls)]]


def test_kernel_can_read_system_libraries(session: HostSession, tmp_path: Path, user: str) -> None:
    library = next(Path(path) for path in ("/usr/lib", "/lib64", "/usr/lib64") if any(Path(path).rglob("libc.so.6")))
    library = next(library.rglob("libc.so.6"))
    calls = [f'reads("{path}", 0)' for path in (library, "/dev/zero", "/dev/urandom")]
    assert asked(session, tmp_path, [*calls, f'reads_in("{library.parent}", "libc.so.6")']) == [16] * 4


@pytest.mark.slow
def test_kernel_cannot_read_files_of_the_worker_or_the_system(
    session: HostSession, private: Path, tmp_path: Path, user: str
) -> None:
    (tmp_path / "reference.py").write_text("def reference(): ...")
    own, home = f"/proc/{os.getpid()}", Path.home()
    paths = [
        private / "evo.db",
        tmp_path / "reference.py",
        tmp_path,
        home,
        "/etc/shadow",
        "/etc/passwd",
        "/dev",
        "/tmp",
    ]
    paths += [f"{own}/{name}" for name in ("mem", "maps", "environ", "fd")] + [
        "/proc/self/maps",
        "/sys/kernel",
        "/proc/1/environ",
    ]
    assert set(asked(session, tmp_path, [f'reads("{path}", 0)' for path in paths])) == {-errno.EACCES}
    around = [
        f'reads("/proc/self/root{private}/evo.db", 0)',
        f'reads_in("{private}", "evo.db")',
        f'reads_in("/usr/lib", "../..{private}/evo.db")',
    ]
    assert set(asked(session, tmp_path, around)) == {-errno.EACCES}
    for result in asked(session, tmp_path, [f'reads("{path}", {IOCTL_ONLY})' for path in paths]):
        assert result in (-errno.EACCES, -errno.EISDIR, -errno.EBADF)


def test_access_system_call_finds_files_in_private_folders(
    session: HostSession, private: Path, tmp_path: Path, user: str
) -> None:
    if user == "another user" and not kernels_may_enter(FULL):
        pytest.skip("programs of root lack the capability CAP_DAC_READ_SEARCH")
    asks = [f'access("{private}/{name}", 0) ? -1 : 0' for name in ("evo.db", "missing")]
    reads = [f'reads("{private}/evo.db", 0)', f'reads("{private}", 0)']
    assert asked(session, tmp_path, [*asks, *reads]) == [0, -1, -errno.EACCES, -errno.EACCES]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser changes the user of a process")
def test_kernel_without_cap_dac_read_search_cannot_enter_private_folders(
    session: HostSession, private: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_capability(monkeypatch)
    calls = [f'access("{private}/evo.db", 0) ? -1 : 0', f'reads("{private}/evo.db", 0)']
    assert asked(session, tmp_path, calls) == [-1, -errno.EACCES]


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser changes the user of a process")
@pytest.mark.parametrize("granted", [True, False])
def test_kernel_process_of_root_has_no_capability_except_entering_private_folders(
    session: HostSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    if granted and not kernels_may_enter(FULL):
        pytest.skip("programs of root lack the capability CAP_DAC_READ_SEARCH")
    if not granted:
        without_capability(monkeypatch)
    asked(session, tmp_path, ["0"])
    kernel = session.load(tmp_path / "kernel.so", "f", ARGUMENTS, None)
    session.call(kernel, session.allocate(ARGUMENTS, {}))
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{kernel.pid}/status").read_text().splitlines() if ":\t" in line
    )
    held = {name: int(status[name], 16) for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")}
    only = granted << DAC_READ_SEARCH
    assert held == {"CapPrm": only, "CapEff": only, "CapInh": 0, "CapAmb": 0}
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split()


def test_ioctl_calls_of_a_kernel_are_refused(session: HostSession, tmp_path: Path, user: str) -> None:
    assert (
        asked(session, tmp_path, [f"ask(SYS_ioctl, {file}, 0x5401, (long)kept)" for file in (0, 1)])
        == [-errno.EPERM] * 2
    )


@pytest.mark.parametrize("searched", ["private", "/"])
def test_library_search_path_of_a_kernel_grants_access_to_libraries_only(
    session: HostSession, private: Path, tmp_path: Path, user: str, searched: str
) -> None:
    """The source of a kernel can name any folder as a search folder of its library."""
    for name in ("notes.so", "notes.so.1"):
        (private / name).write_text("no library" * 10)
    library = next(Path("/usr/lib").rglob("libc.so.6")).read_bytes()[:4096]
    (private / "library").write_bytes(library)
    (private / "core.so").write_bytes(library[:16] + b"\4" + library[17:])  # the type of memory dumps
    subprocess.run(["gcc", "-x", "c", "-", "-shared", "-o", private / "libown.so"], input=b"int own;", check=True)
    names = ("evo.db", "notes.so", "notes.so.1", "library", "core.so")
    calls = [f'reads("{private}/{name}", 0)' for name in names] + ['reads("/etc/shadow", 0)', f'reads("{private}", 0)']
    folder = private if searched == "private" else searched
    refused = asked(session, tmp_path, calls, f"-Wl,-rpath,{folder}")
    assert set(refused) == {-errno.EACCES}
    (own,) = asked(session, tmp_path, [f'reads("{private}/libown.so", 0)'], f"-Wl,-rpath,{folder}")
    assert own == (16 if searched == "private" else -errno.EACCES)
