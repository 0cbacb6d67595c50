"""A contest of a champion that was found before: it is compared again on this machine's CPU, without searching."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from evo.cli.devices import choose, local_devices
from evo.objective import Objective
from templates.registry import find
from tests.bench.cpu import main
from tests.bench.found import Found
from tests.bench.searching import Match

MATCH = Match(family="softmax", problem="rows=64,cols=64", least={"numpy": 1e9})
SOFTMAX = find("softmax").family


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The file of a champion that this machine's CPU is said to have found."""
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


def test_a_kept_champion_is_compared_again_without_searching(kept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["--champions", str(kept.parent), "--sample", "0", "--rounds", "3"], [MATCH])
    told = capsys.readouterr()
    assert status == 1
    assert told.err.count("does not hold: ") == told.err.count("does not hold: the champion is ") == 1
    assert told.out.count("| **champion**") == 1
    assert "Found on 2026-01-02 by `kernel-evo search softmax`: " in told.out


@pytest.mark.parametrize(
    ("written", "instead", "told"),
    [
        ('"device_model":"', '"device_model":"another ', "name another folder, and it is searched for here"),
        ('"THREADS":1', '"THREADS":3', "softmax rows=64,cols=64: its champion is refused: "),
    ],
)
def test_a_champion_of_another_device_or_space_is_refused(
    kept: Path, written: str, instead: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = kept.read_text()
    assert written in text
    kept.write_text(text.replace(written, instead))
    other = Match(family="softmax", problem="rows=64,cols=64", cache="cold")
    (kept.parent / f"{other.name}.json").write_text(text)
    assert main(["--champions", str(kept.parent), "--sample", "0", "--rounds", "3"], [MATCH, other]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("bench: ")
    assert told in said.err
    assert said.out.count("| **champion**") == 1, "the other contest is held all the same"
