"""A contest compares a stored champion on this machine's CPU, without a search."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from evo.cli.service.devices import choose, local_devices
from evo.trial.objective import Objective
from templates.registry import find
from tests.bench.cpu import main
from tests.bench.found import Found
from tests.bench.grid import main as grid
from tests.bench.searching import BenchError, Match

MATCH = Match(family="softmax", problem="rows=64,cols=64", least={"numpy": 1e9})
SOFTMAX = find("softmax").family


@pytest.fixture
def stored_champion(tmp_path: Path) -> Path:
    """Write the file of a champion that was found on this machine's CPU; return its path."""
    device = choose(local_devices(), "cpu", SOFTMAX)
    problem = SOFTMAX.problem(MATCH.problem, "cpu")
    found = Found(
        family="softmax",
        problem=MATCH.problem,
        objective=Objective(),
        device_model=device.model,
        config=SOFTMAX.space(problem, device, Objective()).default(),
        command="kernel-evo search softmax",
        course="2 trials.",
        overhead_ms=None,
        found_at=datetime(2026, 1, 2, tzinfo=UTC),
    )
    path = tmp_path / f"{MATCH.name}.json"
    path.write_bytes(TypeAdapter(Found).dump_json(found))
    return path


@pytest.mark.slow
def test_contest_benchmark_times_a_stored_champion_and_baselines_without_a_search(
    stored_champion: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["--champions", str(stored_champion.parent), "--sample", "0", "--rounds", "3"], [MATCH])
    told = capsys.readouterr()
    assert status == 1
    missed = "required result missed: "
    assert told.err.count(missed) == told.err.count(f"{missed}the champion is ") == 1
    assert told.out.count("| **champion**") == 1
    assert "Found on 2026-01-02 by `kernel-evo search softmax`: " in told.out


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        (["--family", "rope"], [("rope", "")]),
        (["--family", "softmax", "--problem", "rows=8"], [("softmax", "rows=8")]),
        (["--family", "softmax"], [("softmax", MATCH.problem)]),
        (["--problem", "rows=8"], []),
    ],
)
def test_family_option_of_the_contest_benchmark_selects_or_adds_a_problem(
    arguments: list[str], problems: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def hold(match: Match, *_: object) -> None:
        asked.append((match.family, match.problem))
        raise BenchError("only noted")

    monkeypatch.setattr("tests.bench.cpu.hold", hold)
    main(arguments, [MATCH])
    assert asked == problems


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ('"device_model":"', '"device_model":"another ', "name another folder to search again"),
        ('"THREADS":1', '"THREADS":3', "softmax rows=64,cols=64: its champion does not pass verification: "),
    ],
)
@pytest.mark.long
def test_contest_benchmark_refuses_a_stored_champion_of_a_different_device_or_space(
    stored_champion: Path, written: str, instead: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = stored_champion.read_text()
    assert written in text
    stored_champion.write_text(text.replace(written, instead))
    other = Match(family="softmax", problem="rows=64,cols=64", cache="cold")
    (stored_champion.parent / f"{other.name}.json").write_text(text)
    assert main(["--champions", str(stored_champion.parent), "--sample", "0", "--rounds", "3"], [MATCH, other]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("bench: ")
    assert told in said.err
    assert said.out.count("| **champion**") == 1, "the other contest must still run"


@pytest.mark.long
def test_tunables_missing_in_a_stored_champion_get_default_values(
    stored_champion: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = stored_champion.read_text()
    stored_champion.write_text(text.replace('"THREADS":1,', "").replace(',"THREADS":1', ""))
    assert "THREADS" not in stored_champion.read_text()
    assert main(["--champions", str(stored_champion.parent), "--sample", "0", "--rounds", "3"], [MATCH]) == 1
    assert capsys.readouterr().out.count("| **champion**") == 1


@pytest.mark.slow
def test_grid_benchmark_compares_the_champion_with_a_changed_config(
    stored_champion: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unroll = "UNROLL=2"
    assert grid([str(stored_champion), "--device", "cpu", "--change", unroll, "--rounds", "3"]) == 0
    told = capsys.readouterr().out
    assert [line.split("|")[1].strip() for line in told.splitlines()[2:4]] == ["champion", unroll]
    assert "× numpy" in told.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [("UNROLL", "'UNROLL' is not of the form NAME=VALUE"), ("UNROLL=3", "UNROLL"), ("NONE=1", "NONE")],
)
def test_grid_benchmark_refuses_an_invalid_change_of_the_config(
    stored_champion: Path, change: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grid([str(stored_champion), "--device", "cpu", "--change", change]) == 2
    told = capsys.readouterr().err
    assert told.startswith("grid: ")
    assert said in told
