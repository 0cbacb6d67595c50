"""Gain of a search: how much faster its best config is than the default config and than the median random config.

Both comparisons use trials of the search itself. The default config is among the first trials. The random configs are
the blind trials: those that the initial design proposes before any result is known.

The module also predicts gains: in a suite, the search with the largest expected gain gets the next slice of a shared
budget.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, TypeAlias

from evo.promotion.leading import Confirmation
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval
from evo.search.suite.suite import Goal
from evo.text.wording import count_text, factor_interval_text, factor_text, percent_text
from evo.trial.timing import Timing

BLIND = ("design", "random")
"""Origins of blind trials, which are proposed before any result is known: the initial design, and random draws."""

LEAST_BLIND = 3
"""Minimum number of blind trials for a median. The range of two trials contains the median with a probability of only
50 %.
"""

PROVISIONAL = "Provisional: "
"""First word of the text about a gain that is computed from quick samples."""

Reference: TypeAlias = Literal["default", "random"]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One of the first trials of a search.

    Attributes:
        timing: quick samples of the trial; None if it was not timed.
        default: True if the config is the space's default config, whatever its origin.
        confirmation: result of the trial's confirmation; None if it was not confirmed.
    """

    number: int
    origin: str
    timing: Timing | None
    default: bool = False
    confirmation: Confirmation | None = None


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best config of a search.

    Attributes:
        timing: quick samples of the config.
        confirmation: result of the config's confirmation; None if it was not confirmed.
        over_default: speed-up over the default config, if a confirmation timed both in the same rounds; else None.
    """

    number: int
    timing: Timing
    confirmation: Confirmation | None = None
    over_default: Interval | None = None


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Speed of the best config relative to a reference config.

    Attributes:
        over: the reference: the default config or the median random config.
        ratio: speed-up with its interval; None if it cannot be computed. `words` then states the reason.
        confidence: confidence of the interval, as a fraction.
        trials: number of timed trials from which the reference time is computed.
        words: one sentence with the ratio and the trials on which it is based.
        provisional: True if quick samples contribute to the ratio.
    """

    over: Reference
    ratio: Interval | None
    confidence: float = CONFIDENCE
    trials: int = 0
    words: str = ""
    provisional: bool = False


def gains(best: Best | None, tried: Sequence[Tried], baselines: Mapping[str, Timing]) -> tuple[Gain, ...]:
    """Return the gains over the default config and over the median random config; empty if nothing was measured.

    Args:
        best: the best config, None if nothing was measured.
        tried: the first trials of the search, including trials without a time.
        baselines: timings of the baselines, measured at the start of the search.
    """
    if best is None:
        return ()
    time, basis = _comparable(best, baselines)
    return _over_default(best, time, basis, tried), _over_random(best, time, basis, tried)


def _over_default(best: Best, time: Interval, basis: str, tried: Sequence[Tried]) -> Gain:
    """Return the gain over the default config. If a confirmation compared both configs, the gain is their confirmed
    ratio."""
    default = next((each for each in tried if each.default), None)
    if default is None:
        return Gain(
            over="default", ratio=None, words="The default config was not tried, so there is no comparison with it."
        )
    if default.number == best.number:
        words = "The default config is the best config found: the search found no faster one."
        return Gain(over="default", ratio=Interval(low=1.0, estimate=1.0, high=1.0), trials=1, words=words)
    confirmed = _confirmed_ratio(best, default)
    if confirmed is not None:
        ratio, basis = confirmed
    elif default.timing is not None:
        ratio = _ratio(order_interval(default.timing.samples_us, CONFIDENCE), time)
    else:
        words = f"The default config (trial {default.number}) could not be timed, so there is no comparison with it."
        return Gain(over="default", ratio=None, words=words)
    figure = factor_interval_text(ratio.low, ratio.estimate, ratio.high)
    other = f"the default config (trial {default.number})"
    unconfirmed = default.timing if confirmed is None else None
    if unconfirmed and (unclear := _unclear(best, unconfirmed.median_us, ratio, other, basis)):
        return Gain(over="default", ratio=None, trials=1, words=unclear)
    level, label = percent_text(CONFIDENCE), PROVISIONAL if confirmed is None else ""
    words = f"{label}{figure} as fast as {other}; {level} interval, {basis}."
    return Gain(over="default", ratio=ratio, trials=1, words=words, provisional=confirmed is None)


def _unclear(best: Best, other_us: float, ratio: Interval, other: str, basis: str) -> str:
    """Return a sentence if quick samples alone contradict a ratio from a confirmation, else an empty string.

    Args:
        other_us: quick time of the reference in µs.
        ratio: speed-up over the reference, computed from `basis`.
        other: name of the reference.
    """
    quick = other_us / best.timing.median_us
    if best.confirmation is None or (quick > 1.0) is (ratio.estimate > 1.0):
        return ""
    figure = factor_interval_text(ratio.low, ratio.estimate, ratio.high)
    return (
        f"Unclear: {figure} as fast as {other}, {basis}, but {factor_text(quick)} by quick samples alone. The speed of "
        "the machine changed between the measurements; only a confirmation that times both in the same rounds is "
        "reliable."
    )


def _confirmed_ratio(best: Best, default: Tried) -> tuple[Interval, str] | None:
    """Return the confirmed speed-up over the default config, with its source as text; None if there is none.

    A paired comparison of both configs is preferred. Otherwise, the configs were confirmed in different runs, and their
    speed-ups over the same baseline are compared.
    """
    if best.over_default is not None:
        return best.over_default, "by a confirmation that timed both in the same rounds"
    ours, theirs = best.confirmation, default.confirmation
    if ours is None or theirs is None or ours.baseline != theirs.baseline:
        return None
    if ours.speedup is None or theirs.speedup is None:
        return None
    return _ratio(ours.speedup, theirs.speedup), f"by the confirmed speed-ups of both over {ours.baseline}"


def _over_random(best: Best, time: Interval, basis: str, tried: Sequence[Tried]) -> Gain:
    blind = [each for each in tried if each.origin in BLIND and not each.default]
    medians_us = [each.timing.median_us for each in blind if each.timing is not None]
    failed = len(blind) - len(medians_us)
    others = f"; {failed} more could not be timed" if failed else ""
    if len(medians_us) < LEAST_BLIND:
        few = count_text(len(medians_us), "random trial")
        words = f"Too few random configs to compare with: {few} timed, {LEAST_BLIND} are needed{others}."
        return Gain(over="random", ratio=None, trials=len(medians_us), words=words)
    ratio, level = _ratio(order_interval(medians_us, CONFIDENCE), time), coverage(len(medians_us))
    other = f"the median of {len(medians_us)} random configs"
    if unclear := _unclear(best, median(medians_us), ratio, other, basis):
        return Gain(over="random", ratio=None, confidence=level, trials=len(medians_us), words=unclear)
    figure = factor_interval_text(ratio.low, ratio.estimate, ratio.high)
    words = (
        f"{PROVISIONAL}{figure} as fast as {other}, the first random trials of "
        f"this search{others}; {percent_text(level)} interval, {basis}."
    )
    return Gain(over="random", ratio=ratio, confidence=level, trials=len(medians_us), words=words, provisional=True)


def coverage(count: int) -> float:
    """Return the confidence level of `order_interval` for `count` samples, at most `CONFIDENCE`.

    With few samples, even the interval from the smallest to the largest sample has a lower confidence.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed. (1999), section 3.2.
    """
    return min(CONFIDENCE, 1.0 - 2.0 * 0.5**count)


def _comparable(best: Best, baselines: Mapping[str, Timing]) -> tuple[Interval, str]:
    """Return a time of the best config that can be compared with the search's quick samples, and its source as text.

    A confirmation runs in another session, so its times are not comparable with quick samples. The fastest baseline
    runs in both sessions. Its quick time divided by the confirmed speed-up estimates the kernel's time in the search's
    session.

    If there is no confirmation or no such baseline, the quick samples are used. They are less reliable: trials are
    timed minutes apart, and the samples of the best of many trials are often too low by chance.
    """
    found = best.confirmation
    before = None if found is None else baselines.get(found.baseline or "")
    if found is None or found.speedup is None or before is None:
        text = "by quick samples at different times; changes of the device in between are not included"
        return order_interval(best.timing.samples_us, CONFIDENCE), text
    quick = order_interval(before.samples_us, CONFIDENCE)
    return _ratio(quick, found.speedup), f"by its confirmed speed-up over {found.baseline} and quick samples"


def _ratio(over: Interval, under: Interval) -> Interval:
    """Return the ratio of two independent estimates, with its interval (root of the sum of squared relative errors)."""
    estimate = over.estimate / under.estimate
    up = math.hypot(math.log(over.high / over.estimate), math.log(under.estimate / under.low))
    down = math.hypot(math.log(over.estimate / over.low), math.log(under.high / under.estimate))
    return Interval(low=estimate * math.exp(-down), estimate=estimate, high=estimate * math.exp(up))


UNKNOWN = 0.05
"""Expected relative gain from a slice of the budget, for a search without results."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Progress of the search for one call of a suite.

    Attributes:
        weight: weight of the call in its suite.
        best: best time or cost at the end of each slice so far, first slice first; None for slices before the first
            measurement.
        open: False if the search has ended and gets no more slices.
    """

    weight: float
    best: tuple[float | None, ...] = ()
    open: bool = True


def expected_gain(progress: Progress, goal: Goal) -> float:
    """Return the saving that is expected from one more slice of the budget, multiplied by the weight of the call.

    The saving is in µs for the goal ``time``, and the logarithm of a speed-up for other goals. The goal ``worst``
    ignores the weight. While no trial was measured, the saving is `UNKNOWN` for any goal, halved for each slice so far.

    The n-th slice of a search is expected to gain (n - 1) / n times as much as the previous slice, because the best of
    a sample improves with the logarithm of its size. The gains of the last two slices are averaged with a prior, so
    that one slice without progress does not exclude a search.
    """
    slices, weight = len(progress.best), 1.0 if goal == "worst" else progress.weight
    times = [each for each in progress.best if each is not None]
    if not times:
        return float(weight * UNKNOWN * 0.5**slices)
    gains = [math.log(before / after) for before, after in itertools.pairwise(times)]
    latest = gains[-2:]
    seen = (UNKNOWN / slices + sum(latest)) / (1 + len(latest))
    expected = seen * slices / (slices + 1)
    return weight * expected * (times[-1] if goal == "time" else 1.0)


def next_call(courses: Mapping[str, Progress], goal: Goal) -> str | None:
    """Return the call whose search gets the next slice of the budget; None if no search can continue.

    Searches that had no slice yet come first, in the order of `courses`, because their gains are unknown and their
    results help searches of similar problems.

    Args:
        courses: progress of the search for each call, by the call's name.
        goal: goal of the suite.
    """
    candidates = {name: course for name, course in courses.items() if course.open}
    fresh: Sequence[str] = [name for name, course in candidates.items() if not course.best]
    if fresh:
        return fresh[0]
    return max(candidates, key=lambda name: expected_gain(candidates[name], goal), default=None)
