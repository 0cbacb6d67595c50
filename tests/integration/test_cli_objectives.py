"""Searches by a metric run from the CLI, and are measured on this machine's CPU."""

import csv
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.commands import CommandLine

METRIC = "time_us * WIDTH"
SAXPY = Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Yield a command line with a service, a worker and a finished search."""
    line = CommandLine.fresh(tmp_path_factory)
    path = line.home / "quick.toml"
    path.write_text("quick_samples = 10\nconfirm_samples = 20\nconfirm_processes = 2\nmost_processes = 2\nseeds = 1\n")
    terms = ("--policy", str(path), "--problem", "N=4096", "--trials", "6", "--strategy", "random")
    with line.working():
        ended = line.run("search", str(SAXPY), *terms, "--objective", f"minimise: {METRIC}", "--json")
        assert ended.code == 0, ended.err
        yield line


@pytest.mark.slow
def test_trials_and_champion_of_a_search_by_metric_have_metric_values(line: CommandLine) -> None:
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
        ("minimise: registers", "--objective: `registers`: there is no `registers`. Usable names: A, "),
        ("maximise: N", "--objective: `N` is the same for every config; use one of: "),
        ("maximise", "--objective: 'maximise' is neither `time` nor a direction with a metric"),
    ],
)
def test_error_for_an_invalid_metric_names_the_objective_option(line: CommandLine, objective: str, said: str) -> None:
    refused = line.run("search", str(SAXPY), "--objective", objective, "--trials", "1")
    assert refused.code == 2
    assert said in " ".join(refused.err.split())


@pytest.mark.parametrize(
    ("objectives", "said"),
    [
        (("time", "minimise: registers"), "--objective (second): `registers`: there is no `registers`. Usable names"),
        (("maximise: gb_s", "maximise: gb_s"), "--objective (second): `gb_s` is the first objective, too"),
        (("time", "time"), "--objective (second): `time_us` is the first objective, too"),
        (("time", "maximise: gb_s", "minimise: WIDTH"), "--objective: was given 3 times; a search has at most 2"),
    ],
)
def test_error_for_an_invalid_second_objective_names_the_objective_option(
    line: CommandLine, objectives: tuple[str, ...], said: str
) -> None:
    words = [word for each in objectives for word in ("--objective", each)]
    refused = line.run("search", str(SAXPY), *words, "--trials", "1")
    assert refused.code == 2
    assert said in " ".join(refused.err.split())


@pytest.mark.slow
def test_two_objective_search_shows_its_pareto_front_in_table_and_report(line: CommandLine) -> None:
    terms = ("--policy", str(line.home / "quick.toml"), "--problem", "N=8192", "--trials", "8")
    words = ("--objective", "time", "--objective", "minimise: WIDTH * (1 + UNROLL)")
    ended = line.run("search", str(SAXPY), *terms, *words)
    assert ended.code == 0, ended.err
    number = max(each["id"] for each in line.run("searches", "--json").json)
    trials = {each["number"]: each for each in line.run("trials", str(number), "--json").json}
    front = line.run("trials", str(number), "--front", "--json").json
    table = line.run("trials", str(number)).out
    report = line.run("report", str(number), "--to", str(line.home / "joint"))
    champion = line.run("searches", "--json").json[0]["champion"]
    second_costs = {at: each["second_cost"] for at, each in trials.items() if each["second_cost"]}
    costs = {at: (trials[at]["quick_us"] or trials[at]["time_us"], second) for at, second in second_costs.items()}
    assert len(costs) == 8
    for at, (_, second) in costs.items():
        assert second == trials[at]["config"]["WIDTH"] * (1 + trials[at]["config"]["UNROLL"])
    expected = [
        at for at, (x, y) in costs.items() if not any(a <= x and b <= y and (a, b) != (x, y) for a, b in costs.values())
    ]
    assert {each["number"] for each in front} == set(expected)
    assert table.count("●") == len(expected)
    assert "Pareto front of " in ended.out
    assert champion["objective"]["second_metric"] is None
    text = "".join(path.read_text() for path in (line.home / "joint").rglob("*.md"))
    assert report.code == 0
    assert "## Pareto front" in text
    assert "--objective time --objective 'minimise: WIDTH * (1 + UNROLL)'" in text


WATTS = 20.0


@contextmanager
def rapl(folder: Path) -> Iterator[None]:
    """Write the counter files of a fake processor package that draws constant power, and update them."""
    zone, ended, began_s = folder / "intel-rapl:0", threading.Event(), time.monotonic()
    zone.mkdir(parents=True)
    (zone / "name").write_text("package-0\n")
    (zone / "max_energy_range_uj").write_text("262143328850\n")

    def count() -> None:
        while not ended.is_set():
            (zone / "next").write_text(f"{(time.monotonic() - began_s) * WATTS * 1e6:.0f}\n")
            (zone / "next").replace(zone / "energy_uj")
            time.sleep(0.02)  # each measurement observes the counter for 0.15 s

    thread = threading.Thread(target=count)
    thread.start()
    try:
        while not (zone / "energy_uj").exists():
            time.sleep(0.001)
        yield
    finally:
        ended.set()
        thread.join()


@pytest.mark.long
def test_energy_search_measures_the_power_of_trials_and_champion(
    line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_EVO_POWERCAP", str(tmp_path))
    terms = ("--policy", str(line.home / "quick.toml"), "--trials", "4", "--problem", "N=65536")
    home = tmp_path / "home"
    home.mkdir()
    apart = CommandLine(home=home, cache=line.cache)
    with rapl(tmp_path), apart.working():
        ended = apart.run("search", str(SAXPY), *terms, "--objective", "minimise: energy_uj", "--json")
        assert ended.code == 0, ended.err
        trials = apart.run("trials", "1", "--json").json
        front = apart.run("trials", "1", "--metric", "maximise: power_w", "--metric", "energy_uj")
    view = ended.json
    assert view["device"]["software"]["energy"] == "RAPL package-0"
    measured = [each for each in trials if each["outcome"]["kind"] == "measured"]
    assert len(measured) == 4
    for trial in measured:
        power = trial["outcome"]["timing"]["power"]
        assert power["meter"] == "RAPL package-0"
        assert len(power["samples_w"]) == 3
        # the limits are wide, because the thread that updates the counter may be late
        assert all(WATTS / 2 < sample < WATTS * 2 for sample in power["samples_w"])
        assert trial["cost"] == pytest.approx(trial["time_us"] * sorted(power["samples_w"])[1])
    assert front.code == 0, front.err
    assert view["champion"]["verdict"]["metric"] == pytest.approx(WATTS * view["champion"]["time_us"], rel=0.5)


@pytest.mark.slow
def test_energy_metric_is_refused_without_an_energy_counter(
    line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNEL_EVO_POWERCAP", str(tmp_path))
    apart = CommandLine(home=tmp_path, cache=line.cache)
    with apart.working():
        refused = apart.run("search", str(SAXPY), "--trials", "1", "--objective", "minimise: power_w")
    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert "--objective: `power_w` requires energy measurements, and " in said
    assert "mount the folder and set KERNEL_EVO_POWERCAP" in said
