"""Checks the default strategy's required results."""

from collections.abc import Iterator, Mapping, Sequence

from tests.bench.strategy.asking import Cost, growth
from tests.bench.strategy.crowd import Crowding
from tests.bench.strategy.evaluations import BUDGET, Standing, lead
from tests.bench.strategy.moments import Timing

P100, P200 = 0.74, 0.88
MEDIAN_RATIO, MEAN_RATIO = 1.005, 1.014
GROWTH = 1.5
MEDIAN_MS, P99_MS = 10.0, 50.0


def standing(found: Mapping[str, Standing], ours: str, others: Sequence[str]) -> Iterator[str]:
    """Yield the missed requirements as text. The default must lead each of `others` by more than the interval."""
    mine = found[ours]
    if mine.p100.estimate < P100:
        yield f"P100 is {mine.p100.estimate:.3f}, {P100} is wanted"
    if mine.p200.estimate < P200:
        yield f"P200 is {mine.p200.estimate:.3f}, {P200} is wanted"
    if mine.ratios[-1] > MEDIAN_RATIO:
        yield f"best/optimum after {BUDGET} is {mine.ratios[-1]:.4f} at the median, {MEDIAN_RATIO} is wanted"
    if mine.mean_ratio > MEAN_RATIO:
        yield f"best/optimum after {BUDGET} is {mine.mean_ratio:.4f} as the mean, {MEAN_RATIO} is wanted"
    if not mine.whole:
        yield f"a run has {mine.least_distinct} distinct valid evaluations, {BUDGET} are wanted"
    if min(mine.p200_by_space) <= 0:
        yield "a space is searched worse than at random"
    for name in others:
        for score in ("p100", "p200"):
            ahead = lead(mine, found[name], score)
            if ahead.low <= 0:
                yield f"{score.upper()} is ahead of {name} by {ahead.estimate:.3f}, not by more than the interval"


def timing(found: Mapping[str, Timing], ours: str, others: Sequence[str]) -> Iterator[str]:
    mine = found[ours]
    for name in others:
        if found[name].alone.estimate > mine.alone.estimate:
            yield f"on the time axis {name} is ahead with one worker"
        if found[name].together.estimate > mine.together.estimate:
            yield f"on the time axis {name} is ahead with several workers"


def crowding(found: Mapping[str, Crowding], ours: str) -> Iterator[str]:
    if not found[ours].growth <= GROWTH:
        yield f"32 workers need {found[ours].growth:.2f} times the trials, {GROWTH} at most is wanted"


def asking(found: Mapping[str, Sequence[Cost]], ours: str) -> Iterator[str]:
    for name, costs in found.items():
        if not name.startswith(ours):
            continue
        worst = max(costs, key=lambda cost: cost.median_ms)
        if worst.median_ms > MEDIAN_MS:
            yield f"{name}: asking takes {worst.median_ms:.1f} ms at {worst.trials} trials, {MEDIAN_MS:g} is wanted"
        if (slowest := max(cost.p99_ms for cost in costs)) > P99_MS:
            yield f"{name}: the 99th percentile of asking is {slowest:.1f} ms, {P99_MS:g} is wanted"
        if growth(costs) >= 1:
            yield f"{name}: asking grows with exponent {growth(costs):.2f} of the trials, less than 1 is wanted"
