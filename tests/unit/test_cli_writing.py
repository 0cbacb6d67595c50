"""A file that a long run ends with: refused before the run, and never lost after it."""

from pathlib import Path

import pytest

from evo.cli.files.writing import require_place, write_or_show
from evo.errors import Conflict, EvoError


def test_a_place_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "report.md"
    require_place(place, force=False)
    assert not place.exists()
    place.write_text("before")
    require_place(place, force=True)
    assert place.read_text() == "before"
    with pytest.raises(Conflict, match=r"report\.md is there already: replace it with --force, or name another"):
        require_place(place, force=False)


@pytest.mark.parametrize("force", [False, True])
def test_what_cannot_be_written_is_refused_with_the_option_and_the_way_out(tmp_path: Path, force: bool) -> None:
    with pytest.raises(EvoError, match=r"--to: .*none/m.md cannot be written \(No such file.*e\.g\. \./m\.md"):
        require_place(tmp_path / "none" / "m.md", force=force)


def test_a_report_that_cannot_be_written_in_the_end_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder went, or somebody else wrote the file, while the searches ran."""
    taken = tmp_path / "taken.md"
    taken.write_text("another's")
    for place in (tmp_path / "gone" / "m.md", taken):
        with pytest.raises(EvoError, match="--to: "):
            write_or_show(place, "# found: 4 µs\n", force=False)
        assert capsys.readouterr().out == "# found: 4 µs\n"
    assert taken.read_text() == "another's"
    write_or_show(taken, "mine", force=True)
    assert taken.read_text() == "mine"
