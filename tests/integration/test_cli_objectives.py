"""Searches by a metric on the CLI, measured on this machine's CPU."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.integration.commands import CommandLine

METRIC = "time_us * WIDTH"
SAXPY = Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    line = CommandLine.fresh(tmp_path_factory)
    path = line.home / "quick.toml"
    path.write_text("quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 2\nmost_processes = 2\nseeds = 1\n")
    terms = ("--policy", str(path), "--problem", "N=4096", "--trials", "6", "--strategy", "random")
    ended = line.run_apart("search", str(SAXPY), *terms, "--objective", f"minimise: {METRIC}", "--json")
    assert ended.code == 0, ended.err
    return line


def test_measured_trials_are_ranked_and_promoted_by_the_metric(line: CommandLine) -> None:
    with line.serving():
        trials = line.run("trials", "1", "--json").json
        (champion,) = line.run("champion", "show", "1", "--json").json
        table = line.run("trials", "1").out
        written = line.run("trials", "1", "--format", "csv").out
        report = line.run("report", "1", "--to", str(line.home / "report"))
        evidence = line.run("champion", "export", "1", "--to", str(line.home / "champion"))
    measured = [trial for trial in trials if trial["cost"] is not None]
    assert len(measured) == 6
    assert [trial["cost"] for trial in measured] == sorted(trial["cost"] for trial in measured)
    for trial in measured:
        assert trial["cost"] == pytest.approx(trial["time_us"] * trial["config"]["WIDTH"])
    assert champion["objective"]["metric"] == METRIC
    assert champion["verdict"]["metric"] == pytest.approx(champion["time_us"] * champion["config"]["WIDTH"])
    assert METRIC in table
    rows = list(csv.DictReader(io.StringIO(written)))
    assert {int(row["number"]): float(row["cost"]) for row in rows} == {
        trial["number"]: pytest.approx(trial["cost"]) for trial in measured
    }
    assert (report.code, evidence.code) == (0, 0)
    text = "".join(path.read_text() for path in (line.home / "report").rglob("*.md"))
    assert f"minimise: {METRIC}" in text
    stored = json.loads((line.home / "champion" / "evidence.json").read_text())
    assert stored["objective"]["metric"] == METRIC


@pytest.mark.parametrize(
    ("objective", "said"),
    [
        ("minimise: registers", "--objective: `registers`: there is no `registers`. Figures of a trial here: A, N, "),
        ("maximise: N", "--objective: `N` is the same for every config: use one of: "),
        ("maximise", "--objective: 'maximise' is no time, and no direction with a metric"),
    ],
)
def test_metrics_that_cannot_rank_are_refused_by_the_name_of_the_option(
    line: CommandLine, objective: str, said: str
) -> None:
    refused = line.run_apart("search", str(SAXPY), "--objective", objective, "--trials", "1")
    assert refused.code == 2
    assert said in " ".join(refused.err.split())
