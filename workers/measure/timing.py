"""Takes samples for the quick gate and for interleaved rounds.

Only runners use this module. If a change of sampling can shift times, `evo.trial.objective.PROTOCOL_VERSION` must
increase.
"""

import gc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evo.trial.timing import Bars, Timing
from workers.backends import Session, Timer, Warming
from workers.measure.baselines import Baselines
from workers.runner.protocol import Compare

_REFERENCE_SAMPLES = 5
_EARLY_SHARE = 5
WARM_US = 10_000.0
"""Duration of the warm-up before a sample in µs. A kernel of 0.5 ms is 4-8 % slower right after another program. It
reaches its usual time, within 1 %, 4-10 ms later.
"""
ROUND_US = 5_000.0
"""Time in µs for the samples of one timer in one round. Their lower quartile is used: interruptions only add time, so
the median would be too high, and the minimum could be too low by chance. If more programs than cores are active, single
samples spread several times as widely (docs/results).
"""
_MOST_REPEATS = 10


class ReferenceTimers:
    """Timers of the anchor (a small fixed kernel) and of an empty kernel. See `Session.anchor` and `Session.floor`."""

    def __init__(self, session: Session) -> None:
        self._anchor = session.anchor()
        self._floor = session.floor()

    def now(self) -> "Moment":
        """Time the anchor and the empty kernel. The times show the current speed of the device."""
        return Moment(anchor_us=_median_of(self._anchor), floor_us=_median_of(self._floor))


@dataclass(frozen=True, kw_only=True)
class Moment:
    """Times of the anchor and of an empty kernel in µs. They show the speed of the device during a measurement."""

    anchor_us: float
    floor_us: float

    def timing(self, samples_us: Sequence[float], calls: int) -> Timing:
        """Return a timing of samples of `calls` calls each, with the times of the anchor and the empty kernel."""
        return Timing(
            samples_us=tuple(samples_us), calls_per_sample=calls, anchor_us=self.anchor_us, floor_us=self.floor_us
        )


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Samples of one candidate.

    Attributes:
        samples_us: average time of a call in µs, for each sample.
        pruned: True if sampling stopped early because the candidate is slow.
    """

    samples_us: tuple[float, ...]
    pruned: bool = False


def take(
    timer: Timer,
    samples: int,
    *,
    bars: Bars = Bars(),
    promising: Callable[[], None] | None = None,
    before_last: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
    warm: bool = False,
) -> Taken:
    """Take consecutive samples. Stop early if the first fifth of the samples shows that the candidate is slow.

    Args:
        samples: number of samples.
        bars: limits of the time of a call. If the median of the first fifth is above `Bars.prune_us`, sampling stops.
            If the lower quartile is above `Bars.shorten_us`, only one more sample is taken.
        promising: function that is called once after the first fifth of the samples, unless these samples exceed a
            limit. If `samples` is 1, it is called before the sample. None if there is none.
        before_last: function that is called before the last sample, e.g. to fill the outputs with poison, or None. It
            is not called if sampling stops because of `Bars.prune_us`.
        after: function that is called after each sample, e.g. to verify the outputs, or None.
        warm: True to make untimed calls of the kernel between samples after `promising` or `after` was called, because
            these functions may change the contents of the caches. No untimed calls follow `after` if the sample took
            `WARM_US` or longer.
    """
    early, last = max(1, math.ceil(samples / _EARLY_SHARE)), samples - 1
    taken: list[float] = []
    with undisturbed():
        if promising is not None and samples == 1:
            promising()
        while len(taken) <= last:
            if len(taken) == early:
                if _above(np.median(taken), bars.prune_us):
                    return Taken(samples_us=tuple(taken), pruned=True)
                if _above(np.percentile(taken, 25), bars.shorten_us):
                    last = early
                elif promising is not None:
                    promising()
                    if warm:
                        timer.sample()
            if len(taken) == last and before_last is not None:
                before_last()
            taken.append(timer.sample())
            if after is not None:
                after()
                if warm and taken[-1] * timer.calls < WARM_US:
                    timer.sample()
    return Taken(samples_us=tuple(taken))


def _above(time_us: np.floating[Any], bar_us: float | None) -> bool:
    return bar_us is not None and float(time_us) > bar_us


def interleave(
    timers: Mapping[str, Timer],
    rounds: int,
    *,
    rng: np.random.Generator,
    warm: bool,
    after: Callable[[str], None] | None = None,
    enough: Callable[[Mapping[str, Sequence[float]]], bool] = lambda _: False,
) -> dict[str, list[float]]:
    """Take one sample of every timer per round, so that drift and other programs affect all timers equally.

    The order of the timers in the first, third, fifth, … round is random. Each following round reverses the order of
    the round before it. In each such pair of rounds, each of two timers therefore precedes the other once.

    Args:
        rng: random generator that draws the orders. In a confirmation, its seed is derived from that of the job.
        warm: True to call the kernel for `WARM_US` before each sample. After the first round, timers whose first sample
            lasted that long are not warmed up. Without these calls, a kernel would be slower after a baseline that uses
            much memory.
        after: function that is called after each sample with the name of the timer, e.g. to verify the outputs; None if
            there is none.
        enough: function that is called after each round with all samples. If it returns True, no more rounds follow.

    Returns:
        The times of a call in µs, one per round (see `undisturbed_sample`), by the name of the timer.
    """
    names = list(timers)
    taken: dict[str, list[float]] = {name: [] for name in names}
    with undisturbed():
        for order in balanced(names, rounds, rng):
            for name in order:
                if warm and (not taken[name] or taken[name][0] * timers[name].calls < WARM_US):
                    _warm_up(timers[name])
                taken[name].append(undisturbed_sample(timers[name]))
                if after is not None:
                    after(name)
            if enough(taken):
                break
    return taken


def balanced(names: Sequence[str], rounds: int, rng: np.random.Generator) -> Iterator[list[str]]:
    """Yield the order of each round: random orders, each followed by its reverse."""
    order: list[str] = []
    for number in range(rounds):
        order = order[::-1] if number % 2 else rng.permutation(names).tolist()
        yield order


def undisturbed_sample(timer: Timer) -> float:
    """Return the lower quartile of as many samples as fit in `ROUND_US`, but of at least 1 and at most `_MOST_REPEATS`.

    A sample is the average time of a call in µs.
    """
    first = timer.sample()
    taken = sorted([first, *(timer.sample() for _ in range(repeats(first * timer.calls) - 1))])
    return taken[len(taken) // 4]


def repeats(sample_us: float) -> int:
    """Return the number of samples that fit in `ROUND_US`, 1 to `_MOST_REPEATS`, if one sample lasts `sample_us`."""
    return max(1, int(ROUND_US / max(sample_us, ROUND_US / _MOST_REPEATS)))


def _warm_up(timer: Timer) -> None:
    if isinstance(timer, Warming):
        timer.warm_up(WARM_US)
        return
    spent_us = 0.0
    while spent_us < WARM_US:
        spent_us += timer.sample() * timer.calls


@contextmanager
def undisturbed() -> Iterator[None]:
    """Disable garbage collection during the ``with`` block."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _median_of(timer: Timer) -> float:
    return float(np.median([timer.sample() for _ in range(_REFERENCE_SAMPLES)]))


_TELLING_ROUNDS = 20
"""Number of rounds that a comparison with the incumbent needs to be precise. If fewer fit into the budget, even the
fastest baseline is omitted.
"""

_FAR_SLOWER = 20
"""A baseline, other than the fastest one, that is slower than the fastest candidate by a larger factor is omitted. Its
time is known from an earlier job.
"""

_SLOWER_THAN_FASTEST = 1.5
"""In a confirmation, a baseline that is slower than the fastest baseline by a larger factor is omitted. The verdict
depends only on the fastest baseline, and each baseline would make every round longer by `WARM_US` or more.
"""

_SAMPLES, _FEW_SAMPLES, _LONG_S = 5, 3, 1.0
"""Number of samples that estimate a timer's typical time, the number if samples are long, and the duration in seconds
above which a sample is long.
"""


def fitting_rounds(timers: Mapping[str, Timer], baselines: Baselines, request: Compare) -> int:
    """Remove baselines that are irrelevant or too slow for the time budget, and return the number of rounds.

    `_left_out` describes which baselines are removed. They and the reasons are added to `Baselines.unavailable`. The
    result is the number of rounds that fit into the budget, at least `Policy.least_rounds` and at most the requested
    number.

    A baseline that is requested by name is never removed, because a confirmation needs it in every process. Without an
    incumbent, the fastest baseline is also kept, because the candidate is compared only with this baseline.
    """
    every = {**timers, **baselines.timers}
    typical_us = {name: _typical_us(timer) for name, timer in every.items()}
    cost_s = {name: _round_s(timer, typical_us[name]) for name, timer in every.items()}
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
    """Return the reasons for omitting baselines, by the name of the baseline.

    A baseline that is not the fastest one is omitted if it is far slower than the fastest candidate or, in a
    confirmation, slower than the fastest baseline by more than `_SLOWER_THAN_FASTEST`. It is also omitted if it is too
    slow for the time budget. The fastest baseline is omitted only if there is an incumbent, and the baseline is too
    slow for the time budget.

    Args:
        typical_us: typical time of a call, by the name of the candidate or baseline.
        cost_s: duration of the samples in one round, including the warm-up, by the same names.
    """
    if not timers:
        return {}
    candidate_us = min(typical_us[name] for name in timers)
    spent_s, reasons = sum(cost_s[name] for name in timers), dict[str, str]()
    by_time = sorted(baselines.timers, key=lambda name: typical_us[name])
    for index, name in enumerate(by_time):
        needed = min(_TELLING_ROUNDS, request.rounds) if "incumbent" in timers else request.policy.least_rounds
        rounds = request.rounds if index else needed
        if index and (reason := _irrelevant(typical_us[name], typical_us[by_time[0]], candidate_us, timers)):
            reasons[name] = reason
        elif (index or "incumbent" in timers) and rounds * (spent_s + cost_s[name]) > request.budget_s:
            reasons[name] = f"{rounds} rounds of {cost_s[name]:.3g} s each do not fit into {request.budget_s:.3g} s"
        else:
            spent_s += cost_s[name]
    return reasons


def _irrelevant(time_us: float, fastest_us: float, candidate_us: float, timers: Mapping[str, Timer]) -> str | None:
    """Return the reason why a baseline that takes `time_us` is irrelevant; None if it is relevant.

    Args:
        fastest_us, candidate_us: times of the fastest baseline and of the fastest candidate.
    """
    if time_us > _FAR_SLOWER * candidate_us:
        other = f"{_FAR_SLOWER} times the {candidate_us:.3g} µs of the fastest candidate"
    elif "challenger" in timers and time_us > _SLOWER_THAN_FASTEST * fastest_us:
        other = f"{_SLOWER_THAN_FASTEST} times the {fastest_us:.3g} µs of the fastest baseline"
    else:
        return None
    return f"{time_us:.3g} µs, more than {other}"


def _typical_us(timer: Timer) -> float:
    first = timer.sample()
    count = _FEW_SAMPLES if first * timer.calls > _LONG_S * 1e6 else _SAMPLES
    return float(np.median([first, *(timer.sample() for _ in range(count - 1))]))


def _round_s(timer: Timer, typical_us: float) -> float:
    """Return the duration in seconds of all samples of this timer in one round, including the warm-up."""
    sample_us = typical_us * timer.calls
    return (sample_us * repeats(sample_us) + max(sample_us, WARM_US)) * 1e-6
