"""Output files of long runs: checked before the run, and never lost after it."""

from pathlib import Path

import pytest

from evo.cli.files.writing import require_place, write_or_show
from evo.errors import Conflict, EvoError


def test_output_path_is_checked_without_writing_the_file(tmp_path: Path) -> None:
    place = tmp_path / "report.md"
    require_place(place, force=False)
    assert not place.exists()
    place.write_text("before")
    require_place(place, force=True)
    assert place.read_text() == "before"
    with pytest.raises(Conflict, match=r"report\.md already exists: replace it with --force, or name another"):
        require_place(place, force=False)


@pytest.mark.parametrize("force", [False, True])
def test_error_of_an_unwritable_output_file_names_option_and_remedy(tmp_path: Path, force: bool) -> None:
    with pytest.raises(EvoError, match=r"--to: .*none/m.md cannot be written \(No such file.*e\.g\. \./m\.md"):
        require_place(tmp_path / "none" / "m.md", force=force)


def test_report_that_cannot_be_written_at_the_end_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder was removed, or another process wrote the file, during the searches."""
    taken = tmp_path / "taken.md"
    taken.write_text("another's")
    for place in (tmp_path / "gone" / "m.md", taken):
        with pytest.raises(EvoError, match="--to: "):
            write_or_show(place, "# found: 4 µs\n", force=False)
        assert capsys.readouterr().out == "# found: 4 µs\n"
    assert taken.read_text() == "another's"
    write_or_show(taken, "mine", force=True)
    assert taken.read_text() == "mine"
