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
    """Yield the missed requirements as text. The intervals of the default's lead over `others` must be above zero."""
    mine = found[ours]
    if mine.p100.estimate < P100:
        yield f"P100 is {mine.p100.estimate:.3f}; the minimum is {P100}"
    if mine.p200.estimate < P200:
        yield f"P200 is {mine.p200.estimate:.3f}; the minimum is {P200}"
    if mine.ratios[-1] > MEDIAN_RATIO:
        yield f"the median of best/optimum after {BUDGET} is {mine.ratios[-1]:.4f}; the maximum is {MEDIAN_RATIO}"
    if mine.mean_ratio > MEAN_RATIO:
        yield f"the mean of best/optimum after {BUDGET} is {mine.mean_ratio:.4f}; the maximum is {MEAN_RATIO}"
    if not mine.whole:
        yield f"a run has {mine.least_distinct} distinct valid evaluations; the minimum is {BUDGET}"
    if min(mine.p200_by_space) <= 0:
        yield "in one space, the strategy is not better than random search"
    for name in others:
        for score in ("p100", "p200"):
            ahead = lead(mine, found[name], score)
            if ahead.low <= 0:
                yield f"the lead in {score.upper()} over {name} is {ahead.estimate:.3f}, but its interval contains zero"


def timing(found: Mapping[str, Timing], ours: str, others: Sequence[str]) -> Iterator[str]:
    mine = found[ours]
    for name in others:
        if found[name].alone.estimate > mine.alone.estimate:
            yield f"{name} scores higher on the time axis with one worker"
        if found[name].together.estimate > mine.together.estimate:
            yield f"{name} scores higher on the time axis with several workers"


def crowding(found: Mapping[str, Crowding], ours: str) -> Iterator[str]:
    if not found[ours].growth <= GROWTH:
        yield f"32 workers need {found[ours].growth:.2f} times the trials; the maximum is {GROWTH}"


def asking(found: Mapping[str, Sequence[Cost]], ours: str) -> Iterator[str]:
    for name, costs in found.items():
        if not name.startswith(ours):
            continue
        worst = max(costs, key=lambda cost: cost.median_ms)
        if worst.median_ms > MEDIAN_MS:
            yield f"{name}: a proposal takes {worst.median_ms:.1f} ms at {worst.trials} trials, over {MEDIAN_MS:g} ms"
        if (slowest := max(cost.p99_ms for cost in costs)) > P99_MS:
            yield f"{name}: the 99th percentile of a proposal is {slowest:.1f} ms; the maximum is {P99_MS:g}"
        if growth(costs) >= 1:
            yield f"{name}: proposals grow with exponent {growth(costs):.2f} of the trials, which must be below 1"
