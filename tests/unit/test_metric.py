"""A user's metric can be the second objective, and time and metric have a Pareto front."""

from dataclasses import replace

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.messages.view.metric import weighed
from evo.messages.view.trial import TrialView
from evo.trial.objective import front
from evo.trial.outcome import CompileFailed, Estimated

PROBLEM = {"N": 4096}


def trial(number: int, time_us: float | None, **resources: float) -> TrialView:
    outcome = CompileFailed(log="") if time_us is None else Estimated(time_us=time_us, resources=resources)
    return TrialView(
        id=number,
        search_id=1,
        number=number,
        config={"TILE": 2**number},
        origin="random",
        parents=(),
        outcome=outcome,
        time_us=time_us,
    )


TRIALS = [
    trial(1, 10.0, registers=64),
    trial(2, None),
    trial(3, 12.0, registers=32),
    trial(4, 12.5, registers=32),
    trial(5, 13.0),
]


def test_pareto_front_matches_its_definition() -> None:
    rng = np.random.default_rng(1)
    for size in (0, 1, 2, 7, 60):
        points = [(float(x), float(y)) for x, y in rng.integers(0, 9, (size, 2))]
        better = [any(b[0] <= a[0] and b[1] <= a[1] and b != a for b in points) for a in points]
        assert front(points) == {index for index, beaten in enumerate(better) if not beaten}


def test_trials_on_the_pareto_front_are_marked() -> None:
    found = weighed(TRIALS, ["registers"], PROBLEM, "--metric")
    marked = [(each.trial.number, each.metrics["registers"], each.front) for each in found]
    assert marked == [(1, 64, True), (3, 32, True), (4, 32, False)]


def test_metric_may_use_config_problem_and_time() -> None:
    metric = "-N / time_us + 0 * TILE"
    found = weighed(TRIALS, [metric], PROBLEM, "--metric")
    assert [each.metrics[metric] for each in found] == pytest.approx([-409.6, -4096 / 12, -4096 / 12.5, -4096 / 13])
    assert [each.front for each in found] == [True, False, False, False]


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("least: registers", "not a direction"),
        ("register", "did you mean `registers`"),
        ("1 +", "--metric"),
        ("__import__('os')", "--metric"),
    ],
)
def test_unknown_name_in_a_metric_is_refused(metric: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        weighed(TRIALS, [metric], PROBLEM, "--metric")


def test_metric_with_direction_maximise_is_maximised() -> None:
    found = weighed(TRIALS, ["maximise: registers"], PROBLEM, "--metric")
    assert [(each.metrics["registers"], each.front) for each in found] == [(64, True), (32, False), (32, False)]


def test_pareto_front_of_two_metrics_ignores_the_time() -> None:
    found = weighed(TRIALS, ["maximize: TILE", "registers"], PROBLEM, "--metric")
    assert [(dict(each.metrics), each.front) for each in found] == [
        ({"TILE": 2, "registers": 64}, False),
        ({"TILE": 8, "registers": 32}, False),
        ({"TILE": 16, "registers": 32}, True),
    ]


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (["registers", "TILE", "N"], "was given 3 times"),
        (["registers", "maximise: registers"], "compared with itself"),
        (["time_us"], "compared with itself"),
    ],
)
def test_pareto_front_of_too_many_or_equal_metrics_is_refused(metrics: list[str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        weighed(TRIALS, metrics, PROBLEM, "--metric")


def test_search_without_times_has_no_pareto_front() -> None:
    assert weighed([trial(2, None)], ["registers"], PROBLEM, "--metric") == []


def test_pareto_front_compares_quick_times_of_valid_kernels() -> None:
    """The confirmed time of trial 1 comes from another run, and trial 3 gave a wrong answer in its confirmation."""
    confirmed = replace(TRIALS[0], time_us=300.0, quick_us=10.0, source="confirmed")
    refuted = replace(TRIALS[2], source="refuted")
    found = weighed([confirmed, refuted, TRIALS[3]], ["registers"], PROBLEM, "--metric")
    assert [(each.trial.number, each.time_us, each.front) for each in found] == [(1, 10.0, True), (4, 12.5, True)]
