"""Warnings about files that a kernel opens in a folder that other users may not enter."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.build.effects import files_in_private_folders


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of mode 0700, in a process whose effective user id is faked as root's."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
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
def test_missing_files_and_strings_that_are_not_paths_give_no_private_folder_warning(folder: Path, source: str) -> None:
    assert list(files_in_private_folders(source.replace("%s", str(folder)))) == []


def test_worker_without_root_gives_no_private_folder_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert list(files_in_private_folders(f'access("{folder}/table.bin", 4)')) == []


def test_private_folder_check_reads_many_empty_lines_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    begun_s = time.thread_time()
    assert list(files_in_private_folders("void f() { access(0, 0); }" + "\n" * 200_000)) == []
    assert time.thread_time() - begun_s < 5
