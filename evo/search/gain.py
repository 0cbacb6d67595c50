"""What a search was worth: its best config beside the default one and beside the median random one.

Both comparisons rest on trials of the search itself. The default config is among the first; the opening tries random
configs before anything is known, and those blind trials are a small sample of what a random config takes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from evo.promotion.leading import Confirmation
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval
from evo.text.wording import count_text, factor_interval_text, percent_text
from evo.trial.timing import Timing

BLIND = ("design", "random")
"""Origins of blind trials: what the opening spreads over the space, and what is drawn at random."""

LEAST_BLIND = 3
"""Fewer blind trials say nothing of a median: the range of two covers it with a probability of 50 %."""

Reference: TypeAlias = Literal["default", "random"]


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One early trial of a search.

    Attributes:
        timing: its quick samples; None where it was not timed.
        default: its config is the default one of the space, whatever suggested it.
    """

    number: int
    origin: str
    timing: Timing | None
    default: bool = False


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best config of a search.

    Attributes:
        timing: its quick samples.
        confirmation: None where it was not confirmed.
    """

    number: int
    timing: Timing
    confirmation: Confirmation | None = None


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How many times as fast the best config is as a reference config.

    Attributes:
        ratio: with its interval; None where `words` says why there is none.
        confidence: of the interval, as a fraction.
        trials: how many timed trials the reference is made of.
        words: the figure with what it rests on, in one sentence.
    """

    over: Reference
    ratio: Interval | None
    confidence: float = CONFIDENCE
    trials: int = 0
    words: str = ""


def gains(best: Best | None, tried: Sequence[Tried], baselines: Mapping[str, Timing]) -> tuple[Gain, ...]:
    """The gain over the default config and over the median random one; empty where nothing was measured.

    Args:
        tried: the first trials of the search, those without a time included.
        baselines: as they were timed when the search began.
    """
    if best is None:
        return ()
    time, basis = _comparable(best, baselines)
    return _over_default(best, time, basis, tried), _over_random(time, basis, tried)


def _over_default(best: Best, time: Interval, basis: str, tried: Sequence[Tried]) -> Gain:
    default = next((each for each in tried if each.default), None)
    if default is None:
        return Gain(
            over="default", ratio=None, words="The default config was not tried, so nothing is compared with it."
        )
    if default.number == best.number:
        words = "The default config is the best that was found: searching gained nothing over it."
        return Gain(over="default", ratio=Interval(low=1.0, estimate=1.0, high=1.0), trials=1, words=words)
    if default.timing is None:
        words = f"The default config (trial {default.number}) could not be timed, so nothing is compared with it."
        return Gain(over="default", ratio=None, words=words)
    ratio = _ratio(order_interval(default.timing.samples_us, CONFIDENCE), time)
    figure = factor_interval_text(ratio.low, ratio.estimate, ratio.high)
    level = percent_text(CONFIDENCE)
    words = f"{figure} as fast as the default config (trial {default.number}); {level} interval, {basis}."
    return Gain(over="default", ratio=ratio, trials=1, words=words)


def _over_random(time: Interval, basis: str, tried: Sequence[Tried]) -> Gain:
    blind = [each for each in tried if each.origin in BLIND and not each.default]
    medians_us = [each.timing.median_us for each in blind if each.timing is not None]
    failed = len(blind) - len(medians_us)
    others = f"; {failed} more could not be timed" if failed else ""
    if len(medians_us) < LEAST_BLIND:
        few = count_text(len(medians_us), "blind trial")
        words = f"Too few random configs to compare with: {few} timed, {LEAST_BLIND} are needed{others}."
        return Gain(over="random", ratio=None, trials=len(medians_us), words=words)
    ratio, level = _ratio(order_interval(medians_us, CONFIDENCE), time), coverage(len(medians_us))
    figure = factor_interval_text(ratio.low, ratio.estimate, ratio.high)
    words = (
        f"{figure} as fast as the median of {len(medians_us)} random configs, the blind trials of this search{others}; "
        f"{percent_text(level)} interval, {basis}."
    )
    return Gain(over="random", ratio=ratio, confidence=level, trials=len(medians_us), words=words)


def coverage(count: int) -> float:
    """Confidence of `order_interval` at `CONFIDENCE`: less than asked for where the whole range is too short.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed. (1999), section 3.2.
    """
    return min(CONFIDENCE, 1.0 - 2.0 * 0.5**count)


def _comparable(best: Best, baselines: Mapping[str, Timing]) -> tuple[Interval, str]:
    """The best config's time as the quick samples of its search compare with it, and what it rests on.

    A confirmation is another session. The fastest baseline ran in both, so the confirmed speed-up over it and its quick
    time give the time that the kernel would have had then. Quick samples of the best of many flatter it.
    """
    found = best.confirmation
    if found is None:
        return order_interval(best.timing.samples_us, CONFIDENCE), "by quick samples, which flatter the best of many"
    before = baselines.get(found.baseline or "")
    if before is None or found.speedup is None:
        return found.time, "by its confirmed time"
    quick = order_interval(before.samples_us, CONFIDENCE)
    return _ratio(quick, found.speedup), f"by its confirmed speed-up over {found.baseline}"


def _ratio(over: Interval, under: Interval) -> Interval:
    """Interval of the ratio of two independent estimates: their relative errors add up as squares."""
    estimate = over.estimate / under.estimate
    up = math.hypot(math.log(over.high / over.estimate), math.log(under.estimate / under.low))
    down = math.hypot(math.log(over.estimate / over.low), math.log(under.high / under.estimate))
    return Interval(low=estimate * math.exp(-down), estimate=estimate, high=estimate * math.exp(up))
