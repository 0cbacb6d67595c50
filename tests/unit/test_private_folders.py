"""Kernels may enter private folders only in some cases; a warning names files that they cannot open."""

import ctypes
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.build.effects import files_in_private_folders
from workers.system import private_folders
from workers.system.private_folders import kernels_may_enter


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder of mode 0700."""
    with tempfile.TemporaryDirectory() as made:
        if any(not above.stat().st_mode & 1 for above in Path(made).parents):
            pytest.skip("other users may not enter the folder for temporary files")
        yield Path(made)


@pytest.mark.parametrize(
    ("source", "flags"),
    [
        ('int f(void) { return access("%s/a b/table.bin", 4); }', []),
        ('char n[] = "%s/a b/table.bin"; int f(void) { return access(n, 0); }', ["-O3"]),
        ("int f(void) { return access(TABLE, F_OK); }", ['-DTABLE="%s/a b/table.bin"']),
    ],
)
def test_warning_names_the_file_in_a_private_folder_and_the_chmod_command(
    folder: Path, source: str, flags: list[str]
) -> None:
    source, flags = source.replace("%s", str(folder)), [each.replace("%s", str(folder)) for each in flags]
    (found,) = files_in_private_folders(source, flags)
    assert f"The kernel cannot access {folder}/a b/t" in found
    assert f"chmod o+x {folder}, or" in found
    folder.chmod(0o711)
    assert list(files_in_private_folders(source, flags)) == []
    (folder / "a b").mkdir(mode=0o700)
    (found,) = files_in_private_folders(source, flags)
    assert f"chmod o+x '{folder}/a b', or" in found


@pytest.mark.parametrize(
    "source",
    [
        'access("/missing/table.bin", 4)',
        'access("table.bin", 4)',
        'access(n, 4); char a[] = "/"; char b[] = "// no path"; char c[] = "/\\n"; int d = a / b;',
        'access(n, 4)\n#include "%s/a.h"\n',
        'char n[] = "%s/table.bin"; // a text alone',
    ],
)
def test_missing_files_and_ordinary_strings_give_no_private_folder_warning(folder: Path, source: str) -> None:
    assert list(files_in_private_folders(source.replace("%s", str(folder)))) == []


@pytest.mark.parametrize(
    ("user", "separation", "bounding", "enters"),
    [
        (1000, "none", 0, True),
        (0, "another user, Landlock, seccomp", 0x104, True),
        (0, "another user, Landlock, seccomp", 0x004, False),  # CAP_SETPCAP is missing
        (0, "another user, Landlock, seccomp", 0x100, False),  # CAP_DAC_READ_SEARCH is missing
        (0, "another user, seccomp", 0x104, False),
        (0, "", 0x104, False),
    ],
)
def test_kernels_can_enter_private_folders_as_the_worker_user_or_with_a_capability(
    monkeypatch: pytest.MonkeyPatch, user: int, separation: str, bounding: int, enters: bool
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    monkeypatch.setattr(private_folders, "_bounding", lambda: bounding)
    assert kernels_may_enter(separation) is enters


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities of Linux")
def test_capability_bounding_set_of_the_process_is_read() -> None:
    read = [private_folders._bounding() >> number & 1 for number in range(41)]
    assert read == [ctypes.CDLL(None).prctl(23, number, 0, 0, 0) > 0 for number in range(41)]  # PR_CAPBSET_READ


def test_private_folder_check_reads_many_empty_lines_in_linear_time() -> None:
    begun_s = time.thread_time()
    assert list(files_in_private_folders("void f() { access(0, 0); }" + "\n" * 200_000)) == []
    assert time.thread_time() - begun_s < 5
