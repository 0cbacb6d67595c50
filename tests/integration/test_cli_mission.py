"""The command `mission` writes the report of a rehearsal, and is refused without a GPU or a writable folder."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integration.commands import CommandLine


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


@pytest.mark.long
def test_mission_rehearsal_writes_a_report_and_replaces_it_only_with_force(line: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    done = line.run("mission", "--rehearse", "--device", "cpu", "--to", str(path), "--cost-per-hour", "0.68")
    assert (done.code, done.err) == (0, "")
    assert f"wrote {path}" in done.out
    assert done.out.count("Search ") == 2
    report = path.read_text()
    for part in (
        "**A rehearsal",
        "not on NVIDIA L4",
        "measured on this device",
        "anchor kernel",
        "## B=1,H=1,S=32,D=16",
        "## B=1,H=1,S=64,D=16",
        "baseline numpy",
        "not compared",
        "Decision: ",
        "| finished | 2 trials in ",
    ):
        assert part in report
    again = ("mission", "--rehearse", "--device", "cpu", "--minutes", "0.1", "--to", str(path))
    refused = line.run(*again)
    assert (refused.code, refused.out) == (4, ""), "the option must be refused before any check of the machine"
    assert "report.md already exists: replace it with --force, or choose another file with --to" in refused.err
    assert path.read_text() == report
    missing = line.run(*again, "--force", "--warm-start", str(tmp_path / "none.json"))
    assert (missing.code, missing.out) == (2, "")
    assert "--warm-start: " in missing.err and "none.json cannot be read" in missing.err
    assert line.run("record", "--resume", "1", "--to", str(tmp_path)).code == 0
    recorded = next(each for each in tmp_path.glob("sdpa-*.json.gz") if not each.name.endswith(".t4.json.gz"))
    assert line.run(*again, "--force", "--warm-start", str(recorded)).code == 0
    assert path.read_text() != report
    assert recorded.name in line.run("searches", "--json").out


def test_unwritable_report_folder_is_refused_before_the_mission_begins(line: CommandLine, tmp_path: Path) -> None:
    refused = line.run("mission", "--rehearse", "--device", "cpu", "--to", str(tmp_path / "none" / "m.md"))
    assert (refused.code, refused.out) == (3, "")
    assert "--to: " in refused.err
    assert "cannot be written (No such file or directory); choose another path, e.g. ./m.md" in refused.err


@pytest.mark.skipif(find_spec("cupy") is not None, reason="the test needs a machine without a GPU")
def test_mission_without_a_gpu_is_refused_and_suggests_the_rehearsal(line: CommandLine, tmp_path: Path) -> None:
    refused = line.run("mission", "--to", str(tmp_path / "report.md"))
    assert refused.code == 3
    assert "no GPU can be used: CuPy is not installed" in refused.err
    assert "kernel-evo mission --rehearse" in refused.err
    assert not (tmp_path / "report.md").exists()
