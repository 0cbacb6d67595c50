"""Output files of long runs are checked before the run, and never lost afterwards."""

import errno
import os
import threading
from pathlib import Path

import pytest

from evo.cli.files.writing import require_place, write_file, write_folder, write_or_show
from evo.errors import Conflict, EvoError


def test_output_path_is_checked_without_writing_the_file(tmp_path: Path) -> None:
    place = tmp_path / "report.md"
    require_place(place, force=False)
    assert not place.exists()
    place.write_text("before")
    require_place(place, force=True)
    assert place.read_text() == "before"
    with pytest.raises(Conflict, match=r"report\.md already exists: replace it with --force, or choose another"):
        require_place(place, force=False)


@pytest.mark.parametrize("force", [False, True])
def test_error_for_an_unwritable_output_file_names_option_and_remedy(tmp_path: Path, force: bool) -> None:
    with pytest.raises(EvoError, match=r"--to: .*none/m.md cannot be written \(No such file.*e\.g\. \./m\.md"):
        require_place(tmp_path / "none" / "m.md", force=force)


def test_report_is_printed_if_its_file_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """During the searches, the folder was removed or another process wrote the file."""
    taken = tmp_path / "taken.md"
    taken.write_text("another's")
    for place in (tmp_path / "gone" / "m.md", taken):
        with pytest.raises(EvoError, match="--to: "):
            write_or_show(place, "# found: 4 µs\n", force=False)
        assert capsys.readouterr().out == "# found: 4 µs\n"
    assert taken.read_text() == "another's"
    write_or_show(taken, "mine", force=True)
    assert taken.read_text() == "mine"


def full_disk(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Make every write of a file fail after a few bytes, as on a full disk."""

    def write(path: Path, content: bytes) -> int:
        with path.open("wb") as file:
            file.write(content[:after])
        if len(content) > after:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return len(content)

    monkeypatch.setattr(Path, "write_bytes", write)


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("before", [None, "earlier content"])
def test_interrupted_write_leaves_the_earlier_file_and_no_partial_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, force: bool, before: str | None
) -> None:
    place = tmp_path / "report.md"
    if before is not None:
        place.write_text(before)
    with monkeypatch.context() as patch:
        full_disk(patch, after=5)
        with pytest.raises(OSError, match="No space left"):
            write_file(place, "a longer report", force=force)
    assert [path.name for path in tmp_path.iterdir()] == ([] if before is None else ["report.md"])
    assert before is None or place.read_text() == before


def test_replaced_file_keeps_its_link_and_permissions(tmp_path: Path) -> None:
    real, link = tmp_path / "real.md", tmp_path / "link.md"
    real.write_text("before")
    real.chmod(0o640)
    link.symlink_to(real)
    write_file(link, "after")
    assert (real.read_text(), link.is_symlink(), real.stat().st_mode & 0o777) == ("after", True, 0o640)


def test_output_to_a_named_pipe_does_not_replace_the_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=write_file, args=(pipe, "through the pipe"))
    writer.start()
    assert pipe.read_text() == "through the pipe"
    writer.join()
    assert pipe.is_fifo()


@pytest.mark.parametrize("exists", [False, True])
def test_folder_is_written_completely_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: bool
) -> None:
    folder = tmp_path / "a" / "family"
    if exists:
        folder.mkdir(parents=True)
    files: dict[str, str | bytes] = {"x": b"1", "inner/y": "second", "inner/z": "ü"}
    with monkeypatch.context() as patch:
        full_disk(patch, after=3)
        with pytest.raises(OSError, match="No space left"):
            write_folder(folder, files)
    assert [path for path in folder.parent.rglob("*") if path != folder] == []
    assert folder.exists() == exists
    written = write_folder(folder, files)
    assert written == [folder / name for name in files]
    assert [path.read_bytes() for path in written] == [b"1", b"second", "ü".encode()]
    assert [path.name for path in folder.parent.rglob(".*")] == []
