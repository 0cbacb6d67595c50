"""Plan of a comparison: the rounds that fit its budget and the baselines that take part."""

from collections.abc import Mapping

import numpy as np

from workers.backends import Timer
from workers.measure.baselines import Baselines
from workers.measure.timing import WARM_US, repeats
from workers.runner.protocol import Compare

_TELLING_ROUNDS = 20
"""With fewer rounds, a comparison with the incumbent is too imprecise; even the fastest baseline is then left out."""

_FAR_SLOWER = 20
"""A baseline slower than a candidate by this factor is left out: a hundred rounds would add nothing to its own job."""

_SAMPLES, _FEW_SAMPLES, _LONG_S = 5, 3, 1.0
"""Samples whose median is used, because a single one may have been interrupted; fewer if they last long."""


def fitting_rounds(timers: Mapping[str, Timer], baselines: Baselines, request: Compare) -> int:
    """Return the rounds that fit the budget; baselines that would take too much of it are left out.

    A baseline requested by name always stays: a confirmation needs it in each of its processes. Without an incumbent
    the fastest baseline stays as well, as the only measure of the candidate.
    """
    typical_us = {name: _typical_us(timer) for name, timer in (*timers.items(), *baselines.timers.items())}
    cost_s = {name: _round_s(timer, typical_us[name]) for name, timer in (*timers.items(), *baselines.timers.items())}
    if request.only is None:
        for name, reason in _left_out(timers, baselines, request, typical_us, cost_s).items():
            del baselines.timers[name]
            baselines.unavailable[name] = f"left out: {reason}"
    spent_s = sum(cost_s[name] for name in (*timers, *baselines.timers))
    return min(request.rounds, max(request.policy.least_rounds, int(request.budget_s / max(spent_s, 1e-9))))


def _left_out(
    timers: Mapping[str, Timer],
    baselines: Baselines,
    request: Compare,
    typical_us: Mapping[str, float],
    cost_s: Mapping[str, float],
) -> dict[str, str]:
    """Return why baselines are left out: far slower than the candidates, or too slow for the budget."""
    if not timers:
        return {}
    candidate_us = min(typical_us[name] for name in timers)
    spent_s, reasons = sum(cost_s[name] for name in timers), dict[str, str]()
    for index, name in enumerate(sorted(baselines.timers, key=lambda name: typical_us[name])):
        needed = min(_TELLING_ROUNDS, request.rounds) if "incumbent" in timers else request.policy.least_rounds
        rounds = request.rounds if index else needed
        if index and typical_us[name] > _FAR_SLOWER * candidate_us:
            reasons[name] = (
                f"{typical_us[name]:.3g} µs, more than {_FAR_SLOWER} times the {candidate_us:.3g} µs to compare with"
            )
        elif (index or "incumbent" in timers) and rounds * (spent_s + cost_s[name]) > request.budget_s:
            reasons[name] = f"{rounds} rounds of {cost_s[name]:.3g} s each do not fit {request.budget_s:.3g} s"
        else:
            spent_s += cost_s[name]
    return reasons


def _typical_us(timer: Timer) -> float:
    """Return the microseconds that the calls of a sample take."""
    first = timer.sample()
    count = _FEW_SAMPLES if first * timer.calls > _LONG_S * 1e6 else _SAMPLES
    return float(np.median([first, *(timer.sample() for _ in range(count - 1))]))


def _round_s(timer: Timer, typical_us: float) -> float:
    """Return the seconds that a round of this timer may take: the warm-up and the sample."""
    sample_us = typical_us * timer.calls
    return (sample_us * repeats(sample_us) + max(sample_us, WARM_US)) * 1e-6
