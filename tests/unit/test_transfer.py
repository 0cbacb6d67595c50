"""Fast configs are predicted from the results of other problems."""

import math
from dataclasses import replace

import pytest

from evo.device.estimate.target import known
from evo.space import Space
from evo.space.expression import Expression
from evo.space.tunable import Constraint, Tunable
from evo.strategy.parts.transfer import LEAST, Earlier, NearestRows, predicted
from evo.trial import Config
from evo.trial.objective import Objective
from templates.recorded import shipped

H100 = replace(known("sm_90"), kind="cuda", model="NVIDIA H100 80GB HBM3")
TUNABLES = [
    Tunable(name="TILE", values=(4, 8, 16, 32, 64, 128, 256), default=4),
    Tunable(name="COPY", values=("plain", "async")),
    Tunable(name="UNROLL", values=(1, 2, 4)),
]


def time_us(config: Config, rows: int) -> float:
    """Return a time in µs, which is shortest if TILE equals the number of rows and COPY is asynchronous."""
    away = math.log2(int(config["TILE"]) / rows)
    return 10.0 * (1 + 0.2 * away * away) * (1 if config["COPY"] == "async" else 1.5)


def earlier(space: Space, rows: int) -> Earlier:
    configs = [space.decode(row) for row in space.indices]
    return Earlier(problem={"rows": rows}, results=[(config, time_us(config, rows)) for config in configs])


@pytest.mark.parametrize(
    ("others", "rows", "ratio"), [((16, 64), 32, 1.0), ((8, 16, 32), 64, 1.2), ((32, 64), 16, 1.2)]
)
def test_fast_config_is_predicted_from_results_of_similar_problems(
    others: tuple[int, ...], rows: int, ratio: float
) -> None:
    space = Space(TUNABLES)
    found = predicted(space, {"rows": rows}, [earlier(space, each) for each in others], 3)
    assert time_us(found[0], rows) <= 1.001 * ratio * time_us({"TILE": rows, "COPY": "async"}, rows)


def test_predicted_configs_are_distinct_valid_and_deterministic() -> None:
    narrow = Space(TUNABLES, [Constraint(expression=Expression.parse("TILE * UNROLL <= 32", "constraints"))])
    others = [earlier(Space(TUNABLES), 64), earlier(Space(TUNABLES), 128)]
    found = predicted(narrow, {"rows": 64}, others, 5)
    assert len({narrow.key(each) for each in found}) == 5
    assert all(each in narrow for each in found)
    assert predicted(narrow, {"rows": 64}, others, 5) == found
    assert found[0]["TILE"] in {16, 32}


def test_too_few_results_predict_no_config() -> None:
    space = Space(TUNABLES)
    whole = earlier(space, 16)
    few = replace(whole, results=whole.results[: LEAST - 1])
    assert predicted(space, {"rows": 32}, [few], 5) == []
    assert predicted(space, {"rows": 32}, [], 5) == []
    assert predicted(space, {"rows": 32}, [replace(whole, results=whole.results[:LEAST])], 5)


def test_config_of_a_different_space_maps_to_nearest_numbers_and_defaults() -> None:
    space = Space(TUNABLES)
    row = NearestRows(space).of({"TILE": 80, "COPY": "async", "OTHER": 1})
    assert row is not None
    assert space.decode(row) == {"TILE": 64, "COPY": "async", "UNROLL": 2}
    assert NearestRows(space).of({"TILE": 80, "COPY": "bulk", "UNROLL": 1}) is None


def test_results_of_the_same_problem_predict_its_best_config() -> None:
    space = Space(TUNABLES)
    assert predicted(space, {"rows": 32}, [earlier(space, 32)], 1)[0]["TILE"] == 32


def test_shipped_recordings_of_the_same_device_model_count_as_results_of_the_family() -> None:
    found = shipped("sdpa", H100, Objective())
    assert sorted(each.problem["D"] for each in found) == [64, 128, 192]
    assert all(each.problem["causal"] is False for each in found)
    fastest = min(time for _, time in found[-1].results)
    assert 40 < fastest < 200
    assert shipped("sdpa", replace(H100, model="NVIDIA H200"), Objective()) == []
    assert shipped("sdpa", H100, Objective(cache="cold")) == []
    assert shipped("rmsnorm", H100, Objective()) == []
