"""The mission's command from end to end: rehearsed on this machine, and refused where its GPU is missing."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.integration.commands import CommandLine


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


def test_a_rehearsal_walks_the_whole_way(line: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    done = line.run("mission", "--rehearse", "--device", "cpu", "--to", str(path), "--cost-per-hour", "0.68")
    assert (done.code, done.err) == (0, "")
    assert f"wrote {path}" in done.out
    assert done.out.count("Search ") == 2
    report = path.read_text()
    for part in (
        "**A rehearsal",
        "not on NVIDIA L4",
        "measured here",
        "anchor kernel",
        "## B=1,H=1,S=32,D=16",
        "## B=1,H=1,S=64,D=16",
        "baseline numpy",
        "not compared",
        "Decision: ",
        "| finished | 2 trials in ",
    ):
        assert part in report


@pytest.mark.skipif(find_spec("cupy") is not None, reason="there may be a GPU")
def test_the_mission_itself_needs_its_gpu(line: CommandLine, tmp_path: Path) -> None:
    refused = line.run("mission", "--to", str(tmp_path / "report.md"))
    assert refused.code == 3
    assert "no GPU can be used: CuPy is not installed" in refused.err
    assert "kernel-evo mission --rehearse" in refused.err
    assert not (tmp_path / "report.md").exists()
