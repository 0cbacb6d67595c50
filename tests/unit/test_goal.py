"""The metric of a search uses allowed names, is computed for each trial, and decides verdicts."""

from dataclasses import replace

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.promotion import Known, judge, undecided
from evo.promotion.goal import WORST, Costs, Goal, Kernel
from evo.trial import Proposal, Trial
from evo.trial.objective import Objective, objective_text
from evo.trial.outcome import Estimated, InvalidMeasurement, Measured, WrongAnswer
from evo.trial.timing import Timing
from tests.unit.test_promotion import POLICY, confirmation, rule


def goal(metric: str, direction: str = "minimise", *, work: bool = True) -> Goal:
    objective = Objective(metric=metric, direction=direction)  # type: ignore[arg-type]
    flops, moved = (2000.0, 8000.0) if work else (None, None)
    made = Goal.of(objective, {"N": 64}, flops=flops, moved=moved)
    assert made is not None
    return made


KERNEL = Kernel(config={"BLOCK": 8}, resources={"registers": 40.0})


def test_goal_of_an_objective_without_metric_is_none() -> None:
    assert Goal.of(Objective(), {}, flops=1.0, moved=1.0) is None
    assert Objective().key == "hot,threads=1,plain,float32,deterministic,v3"
    assert Objective(metric="registers", direction="maximise").key.endswith(",v3,maximise=registers")
    assert objective_text(Objective(metric="gb_s", direction="maximise")).startswith("highest `gb_s`: cache hot")


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("time_us", 2.0),
        ("registers * time_us", 80.0),
        ("gflop_s", 1.0),
        ("gb_s", 4.0),
        ("flops / bytes * N / BLOCK", 2.0),
    ],
)
def test_metric_is_computed_from_time_rates_resources_tunables_and_problem(metric: str, value: float) -> None:
    assert goal(metric).metric(KERNEL, 2.0) == pytest.approx(value)
    assert goal(metric).cost(KERNEL, 2.0) == pytest.approx(value)
    most = goal(metric, "maximise")
    assert most.objective.value(most.cost(KERNEL, 2.0)) == pytest.approx(value)
    assert most.cost(KERNEL, 2.0) == pytest.approx(1.0 / value)


@pytest.mark.parametrize(
    ("metric", "compiled", "work", "text"),
    [
        ("registers", False, True, "objective.metric: `registers`: there is no `registers`"),
        ("gb_s", True, False, "there is no `gb_s`"),
        ("time_us +", True, True, "is not an expression"),
        ("N * flops", True, True, "is the same for every config; use one of: BLOCK, energy_uj, gb_s"),
    ],
)
def test_invalid_or_constant_metric_is_refused(metric: str, compiled: bool, work: bool, text: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        goal(metric, work=work).check(["BLOCK"], compiled=compiled)
    assert text in str(refused.value)


def test_objective_with_a_direction_but_no_metric_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"objective\.direction: requires a metric"):
        Goal.of(Objective(direction="maximise"), {}, flops=None, moved=None)


def trial(outcome: Measured | Estimated | WrongAnswer) -> Trial:
    return Trial(number=0, proposal=Proposal(config={"BLOCK": 8}, origin="random"), outcome=outcome)


def test_trial_cost_is_the_value_of_the_metric_and_an_invalid_value_fails_the_trial() -> None:
    measured = trial(Measured(timing=Timing(samples_us=(2.0,)), resources={"registers": 40.0}))
    assert measured.cost == 2.0
    assert goal("registers").judged(measured).cost == 40.0
    assert goal("registers").judged(trial(Estimated(time_us=3.0, resources={"registers": 32.0}))).cost == 32.0
    for metric, text in (("BLOCK - 8", "is 0 for this"), ("shared_memory_bytes", "there is no `shared_memory_bytes`")):
        outcome = goal(metric).judged(measured).outcome
        assert isinstance(outcome, InvalidMeasurement)
        assert text in outcome.reason
    wrong = trial(WrongAnswer(reason="tolerance"))
    assert goal("registers").judged(wrong) is wrong
    assert goal("3 - time_us").confirmed(measured, 4.0) == WORST


def costs(metric: str, direction: str = "minimise", *, ours: float, theirs: float) -> Costs:
    sides = (Kernel(config={"BLOCK": 8}, resources={"registers": each}) for each in (ours, theirs))
    challenger, incumbent = sides
    return Costs(goal=goal(metric, direction), challenger=challenger, incumbent=incumbent)


def test_cost_decides_a_promotion_instead_of_the_time() -> None:
    slower = confirmation(np.random.default_rng(1), challenger_us=120)
    by_time = judge(slower, POLICY, 1, np.random.default_rng(0))
    by_cost = judge(
        slower, POLICY, 1, np.random.default_rng(0), Known(costs=costs("registers * time_us", ours=32, theirs=64))
    )
    assert not by_time.promote
    assert by_cost.promote
    assert by_cost.summary.startswith("Promoted: ")
    assert "less cost (minimise: registers * time_us) than the incumbent" in by_cost.summary
    assert by_cost.speedup is not None
    assert by_cost.speedup.estimate == pytest.approx(64 / (1.2 * 32), rel=0.03)
    assert by_cost.metric == pytest.approx(32 * 120, rel=0.1)
    assert "µs" not in rule(by_cost, "intervals").text
    faster = confirmation(np.random.default_rng(2), challenger_us=80)
    dear = judge(
        faster, POLICY, 1, np.random.default_rng(0), Known(costs=costs("registers * time_us", ours=64, theirs=32))
    )
    assert not dear.promote
    assert "more cost" in rule(dear, "gain").text


def test_maximised_rate_gives_the_same_verdict_as_the_time() -> None:
    report = confirmation(np.random.default_rng(3), challenger_us=80)
    by_time = judge(report, POLICY, 1, np.random.default_rng(0))
    by_rate = judge(
        report, POLICY, 1, np.random.default_rng(0), Known(costs=costs("gb_s", "maximise", ours=1, theirs=1))
    )
    assert by_time.speedup is not None
    assert by_rate.speedup is not None
    assert by_rate.speedup.estimate == pytest.approx(by_time.speedup.estimate)
    assert [each.passed for each in by_rate.rules] == [each.passed for each in by_time.rules]


def test_values_of_a_metric_without_time_are_compared_exactly() -> None:
    report = confirmation(np.random.default_rng(4), challenger_us=100)
    fewer = judge(report, POLICY, 1, np.random.default_rng(0), Known(costs=costs("registers", ours=60, theirs=64)))
    equal = judge(report, POLICY, 1, np.random.default_rng(0), Known(costs=costs("registers", ours=64, theirs=64)))
    assert fewer.promote
    assert not equal.promote
    assert fewer.speedup is not None
    assert (fewer.speedup.low, fewer.speedup.high) == pytest.approx((64 / 60, 64 / 60))


def test_challenger_without_a_metric_value_is_not_promoted() -> None:
    report = confirmation(np.random.default_rng(5), challenger_us=80)
    lost = costs("registers - 64", ours=80, theirs=64)
    verdict = judge(report, POLICY, 1, np.random.default_rng(0), Known(costs=lost))
    assert not verdict.promote
    assert "cannot be compared" in verdict.summary
    assert not undecided(report, POLICY, lost)


def test_first_champion_by_metric_is_promoted_without_an_incumbent() -> None:
    report = confirmation(np.random.default_rng(6), challenger_us=80, incumbent_us=None)
    alone = replace(costs("registers", ours=60, theirs=64), incumbent=None)
    verdict = judge(report, POLICY, 1, np.random.default_rng(0), Known(costs=alone))
    assert verdict.promote
    assert verdict.metric == 60
