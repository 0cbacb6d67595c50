"""Reduced spaces are recorded in files that are read back without loss of measured values."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed, Measured
from evo.trial.timing import Timing
from templates.registry import find, recordings
from tests.bench.recorded.recorder import LONGEST_LOG, Line, in_turns
from tests.bench.recorded.reduced import Reduced, definitions
from tests.bench.recorded.write import documents, write
from tests.tiers import one_in

HOPPER = known("NVIDIA H100 80GB HBM3")
SMALL = Reduced(
    name="small", family="softmax", problem="rows=64,cols=256", tunables={"UNROLL": [1, 2], "VECTOR": [4, 2]}
)


@pytest.mark.parametrize("reduced", definitions(), ids=lambda each: each.name)
def test_reduced_spaces_contain_exactly_their_listed_values(reduced: Reduced) -> None:
    family = find(reduced.family).family
    space = reduced.space(family, HOPPER)
    assert 2_000 <= (space.valid_count or 0) <= 4_500
    problem = family.problem(reduced.problem, "cuda")
    for row in np.random.default_rng(0).permutation(space.indices)[:20]:
        assert family.unfit(space.decode(row), problem, HOPPER, Objective()) is None
    for index, tunable in enumerate(space.tunables):
        if tunable.name in reduced.tunables:
            used = {tunable.values[rank] for rank in set(space.indices[:, index].tolist())}
            assert used == set(reduced.tunables[tunable.name]), tunable.name
        else:
            assert len(tunable.values) == 1


@pytest.mark.parametrize(
    ("tunables", "message"),
    [({"NONE": [1]}, r"kept\.NONE: there is no `NONE`"), ({"UNROLL": [3]}, r"kept\.UNROLL: 3 is not one of 1, 2, 4")],
)
def test_error_names_the_unknown_tunable_or_value_of_a_reduced_space(
    tunables: dict[str, list[int]], message: str
) -> None:
    wrong = Reduced(name="wrong", family="softmax", problem="", tunables=tunables)
    with pytest.raises(InvalidInput, match=message):
        wrong.space(find("softmax").family, HOPPER)


def test_recording_interleaves_spaces_in_proportion_to_their_remaining_configs() -> None:
    due = {0: [{"A": place} for place in range(30)], 1: [{"B": place} for place in range(10)], 2: []}
    turns = list(in_turns(due))
    for whose, configs in due.items():
        assert [config for place, config in turns if place == whose] == configs
    assert Counter(place for place, _ in turns[:20]) == {0: 15, 1: 5}


def test_recorded_lines_round_trip_except_for_truncated_compiler_logs() -> None:
    config: Config = {"A": 1, "B": True, "C": "x"}
    measured = Measured(timing=Timing(samples_us=(1.5, 1.25), anchor_us=3.0), resources={"registers": 32.0})
    line = Line(config=config, outcome=measured, compile_s=0.5, verify_s=0.25, benchmark_s=0.125)
    assert Line.read(line.text()) == line
    failed = Line(config=config, outcome=CompileFailed(log="e" * 1_000), compile_s=1, verify_s=0, benchmark_s=0)
    assert Line.read(failed.text()).outcome == CompileFailed(log="e" * LONGEST_LOG)


def _lines(path: Path) -> None:
    header = {
        "name": "small",
        "family": "softmax",
        "problem": "rows=64,cols=256",
        "device": "a GPU",
        "architecture": "sm_90",
        "software": {"driver": "1.2"},
        "protocol": 2,
        "rounds": 1,
        "cases": ["nominal"],
        "valid_configs": 4,
    }
    lines = [
        Line(
            config={"VECTOR": vector, "UNROLL": unroll, "KEEP": "shared"},
            outcome=Measured(timing=Timing(samples_us=(vector + 10.0 * unroll,))),
            compile_s=0.5,
            verify_s=0.1,
            benchmark_s=0.2,
        ).text()
        for vector in (2, 4)
        for unroll in (2, 1)
    ]
    path.write_text("\n".join([json.dumps(header), *lines]) + "\n")


def test_both_recording_formats_contain_the_measured_times(tmp_path: Path) -> None:
    _lines(tmp_path / "small.jsonl")
    written = documents(tmp_path / "small.jsonl", SMALL, prefix="gpu")
    assert set(written) == {"gpu-small.json.gz", "gpu-small.t4.json.gz"}
    for name, document in written.items():
        write(document, tmp_path / name)
        recording = find(str(tmp_path / name)).recording
        assert recording is not None
        assert dict(recording.tunables) == {"VECTOR": (2, 4), "UNROLL": (1, 2)}
        times = {
            (entry.config["VECTOR"], entry.config["UNROLL"]): entry.outcome.timing.median_us
            for entry in recording.entries.values()
            if isinstance(entry.outcome, Measured)
        }
        assert times == {(2, 1): 12.0, (2, 2): 22.0, (4, 1): 14.0, (4, 2): 24.0}
        assert [entry.costs.total_s for entry in recording.entries.values()] == pytest.approx([0.8] * 4)
    assert written["gpu-small.json.gz"]["fixed"] == {"KEEP": "shared"}


@pytest.mark.parametrize("name", one_in(3, recordings()))
def test_shipped_recordings_are_found_by_name_and_agree_in_both_formats(name: str) -> None:
    package = find(name)
    assert package.recording is not None
    other = find(str(package.path.with_name(f"{name}.t4.json.gz"))).recording
    assert other is not None
    assert package.recording.optimum_us == other.optimum_us
    assert len(package.recording.entries) == len(other.entries) > 2_000
    assert {each.outcome.kind for each in package.recording.entries.values()} >= {"measured"}
