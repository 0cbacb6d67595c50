"""Kernels find linked libraries in folders that the system user of kernel processes cannot read."""

import os
import subprocess
from pathlib import Path

import pytest

from evo.device import Device
from evo.trial.objective import Objective
from tests.integration.workbench import without_capability
from tests.measured import measured
from workers.backends import LaunchError, driver
from workers.backends.cpu.process import library_folders, started
from workers.backends.cpu.process.library_folders import passage, searched_folders
from workers.build.kernel import Argument
from workers.system.private_folders import kernels_may_enter

DEVICE = Device(kind="cpu", model="any", architecture="any", uuid="any")
OUTPUT = [Argument(name="y", role="output", dtype="float32", shape=(1,))]
KERNEL = "float twice(float); void f(float *y) { y[0] = twice(21); }"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


def shared(folder: Path, name: str, source: str, *flags: str) -> Path:
    """Compile a shared library into a new or existing folder, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / name
    command = ["gcc", "-x", "c", "-", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", str(library), *flags]
    subprocess.run(command, input=source.encode(), check=True)
    return library


def linked(folder: Path, *, rpath: str | None = None) -> Path:
    """Return a compiled kernel whose library needs a second library; both libraries are in a private folder."""
    libraries = folder / "private" / "lib"
    shared(libraries, "libbase.so", "float base(void) { return 2; }")
    source = "float base(void); float twice(float x) { return base() * x; }"
    shared(libraries, "libtwice.so", source, f"-L{libraries}", "-lbase", "-Wl,-rpath,$ORIGIN")
    (folder / "private").chmod(0o700)
    return shared(folder, "kernel.so", KERNEL, f"-L{libraries}", "-ltwice", f"-Wl,-rpath,{rpath or libraries}")


def answered(kernel: Path, cache: Path) -> float:
    session = driver("cpu").open(DEVICE, Objective(), cache)
    loaded, buffers = session.load(kernel, "f", OUTPUT, None), session.allocate(OUTPUT, {})
    session.call(loaded, buffers)
    return float(buffers.read("y")[0])


def test_kernel_finds_its_libraries_in_a_private_folder(tmp_path: Path, cache: Path) -> None:
    assert answered(linked(tmp_path), cache) == 42


@pytest.mark.skipif(os.geteuid() != 0, reason="a worker that is not root runs kernels as its own user")
def test_kernel_without_capabilities_finds_its_libraries_in_a_private_folder(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_capability(monkeypatch)
    assert answered(linked(tmp_path), cache) == 42


def test_kernel_of_an_ordinary_user_finds_its_libraries(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(started, "_new_user", lambda: 0)
    assert answered(linked(tmp_path), cache) == 42


def test_kernel_finds_a_library_through_a_symlink_in_its_search_path(tmp_path: Path, cache: Path) -> None:
    """Package managers install each library in a folder of its own, with links in a common folder."""
    store, links = tmp_path / "store", tmp_path / "links"
    kernel = linked(store)
    links.mkdir()
    for library in (store / "private" / "lib").iterdir():
        (links / library.name).symlink_to(library)
    kernel = shared(tmp_path, "kernel.so", KERNEL, f"-L{links}", "-ltwice", f"-Wl,-rpath,{links}")
    assert answered(kernel, cache) == 42


def test_kernel_can_read_library_folders_from_the_dynamic_linker_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = linked(tmp_path, rpath="/nowhere")
    configured, store = tmp_path / "private" / "lib", tmp_path / "store"
    store.mkdir()
    (configured / "libbase.so").rename(store / "libbase.so")
    (configured / "libbase.so").symlink_to(store / "libbase.so")
    (tmp_path / "ld.so.cache").write_bytes(f"head\0{configured}/libtwice.so\0/lib/libm.so.6\0/nowhere/a.so\0".encode())
    monkeypatch.setattr(library_folders, "_CACHE", tmp_path / "ld.so.cache")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    library_folders._configured.cache_clear()
    try:
        with passage(kernel, other_user=False) as ways:
            assert sorted(ways.folders) == [str(configured), str(store)]
            assert (ways.descriptors, dict(ways.variables)) == ((), {})
    finally:
        library_folders._configured.cache_clear()


def test_kernel_finds_its_libraries_through_ld_library_path_of_the_worker(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = linked(tmp_path, rpath="/nowhere")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}/private/lib")
    assert answered(kernel, cache) == 42


def test_missing_library_is_reported_with_a_remedy(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(LaunchError, match=r"libtwice\.so.*add the folder to the flags.*-rpath"):
        answered(linked(tmp_path, rpath="/nowhere"), cache)


@pytest.mark.skipif(os.geteuid() != 0, reason="only a worker that is root runs kernels as another user")
@pytest.mark.parametrize("closed", ["private/lib", "private/lib/libtwice.so"])
def test_launch_error_for_an_unreadable_library_contains_a_chmod_command(
    tmp_path: Path, cache: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = linked(tmp_path)
    (tmp_path / closed).chmod(0o600)
    if kernels_may_enter("another user, Landlock, seccomp"):
        assert answered(kernel, cache) == 42
    without_capability(monkeypatch)
    with pytest.raises(LaunchError) as refusal:
        answered(kernel, cache)
    assert f"chmod -R o+rX {tmp_path / closed}" in str(refusal.value)


def test_no_descriptor_is_passed_for_library_folders_readable_by_all_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment is unchanged, so that the loader searches folders in its usual order."""
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    kernel = shared(tmp_path, "kernel.so", "void f(void) {}", "-Wl,-rpath,/usr/lib")
    with passage(kernel, other_user=True) as ways:
        assert (ways.descriptors, dict(ways.variables)) == ((), {})


def test_library_folder_descriptors_are_closed_after_use(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    kernel = linked(tmp_path)
    with passage(kernel, other_user=True) as ways:
        assert [Path(f"/proc/self/fd/{each}").readlink() for each in ways.descriptors] == [tmp_path / "private/lib"]
    for each in ways.descriptors:
        with pytest.raises(OSError):
            os.fstat(each)


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", b"\x7fELF\x02\x01" + b"\xff" * 200, b"#!"], ids=range(4))
def test_file_that_is_not_an_elf_library_has_no_search_folders(
    tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    (tmp_path / "kernel.so").write_bytes(content)
    assert searched_folders(tmp_path / "kernel.so") == []
    assert searched_folders(tmp_path / "nowhere.so") == []
