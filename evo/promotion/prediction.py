"""Speed-up in several fresh processes: its estimate, its uncertainty, and a prediction for one more process."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from evo.promotion.policy import Policy
from evo.promotion.statistics import (
    BATCH,
    Interval,
    Samples,
    mean_interval,
    median_error,
    paired_ratio,
    prediction_interval,
    rounds_ratio,
    unequal_variances,
)
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

BY_ROUND = "the median of the rounds' ratios, which is not the ratio of the medians"
"""Explanation of `times_as_fast` that users see."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Speed-ups measured in the fresh processes so far, and a prediction for one more process.

    Attributes:
        against: kernel that the challenger is compared with: ``incumbent``, or the name of a baseline.
        speedup: time of the compared kernel divided by the challenger's time. The interval contains the speed-up of one
            more process, over `rounds` rounds, with probability `confidence`.
        found: speed-up in each process so far, as the median ratio over the rounds of the process.
        rounds: number of rounds counted in each process. It is the same in all processes, so that their speed-ups are
            equally precise.
        overall: geometric mean of `found` with its interval across processes; None in verdicts of older versions.
        others: prediction interval for the first process, computed from all later processes; None if there are fewer
            than two later processes.
    """

    against: str
    speedup: Interval
    confidence: float
    found: tuple[float, ...]
    rounds: int
    overall: Interval | None = None
    others: Interval | None = None

    @property
    def agrees(self) -> bool:
        """True if the speed-up of the first process is within `others`, or if `others` is None."""
        return self.others is None or self.others.low <= self.found[0] <= self.others.high


def predict(report: ConfirmReport, policy: Policy) -> Prediction | None:
    """Return the challenger's speed-ups in the fresh processes so far, with a prediction for one more process.

    The result is None if only one process compared the challenger with the incumbent or a baseline. Each process
    contributes one value, the median time ratio over its rounds. The same number of rounds is used in every process.
    """
    pairs, against = compared_times(report), report.repeated_against
    if not report.repeats or not pairs or against is None:
        return None
    rounds = min(len(own.samples_us) for own, _ in pairs)
    ratios = [rounds_ratio(theirs.samples_us[:rounds], own.samples_us[:rounds]) for own, theirs in pairs]
    found = tuple(float(np.median(each)) for each in ratios)
    next_one = partial(prediction_interval, least_spread=_least_spread(ratios, policy.confidence))
    return Prediction(
        against=against,
        speedup=_of_logarithms(next_one, found, policy.confidence),
        confidence=policy.confidence,
        found=found,
        rounds=rounds,
        overall=_of_logarithms(mean_interval, found, policy.confidence),
        others=_of_logarithms(next_one, found[1:], policy.confidence) if len(found) > 2 else None,
    )


def compared_times(report: ConfirmReport) -> list[tuple[Timing, Timing]]:
    """Return the times of the challenger and of the kernel that it is compared with, in each process.

    The list begins with the first process. It is empty if the challenger is compared with no other kernel.
    """
    first, against = report.challenger, report.repeated_against
    other = report.incumbent if against == "incumbent" else report.baselines.get(against or "")
    if first is None or other is None:
        return []
    return [(first, other), *((each.challenger, each.other) for each in report.repeats if each.other is not None)]


def _least_spread(ratios: Sequence[Samples], confidence: float) -> float:
    """Return the smallest credible standard deviation of the logarithm of a process's speed-up, or 0 (decision 74).

    Student's t distribution gives exact prediction intervals if the speed-ups of all processes are normal with equal
    variances. Without evidence against this assumption, the result is 0. If the noise of the rounds differs between the
    processes, or is not normal, some intervals would be too narrow. The result is then the standard error that the
    rounds alone explain: the larger of the estimates from batches of `BATCH` rounds and from the halves of a process.

    Args:
        ratios: time ratios of the rounds, for each process; the same number of rounds in every process.
        confidence: probability that processes with equal normal noise give 0.
    """
    logs, tested = [np.log(each) for each in ratios], BATCH // 2  # shorter batches make the test more powerful
    errors, batches = [median_error(each, batch=tested) ** 2 for each in logs], len(ratios[0]) // tested
    if batches < 2 or not unequal_variances(errors, batches - 1, 1.0 - confidence):
        return 0.0
    lengths = (BATCH, len(ratios[0]) // 2)
    return float(np.sqrt(max(np.mean([median_error(each, batch=size) ** 2 for each in logs]) for size in lengths)))


def predict_us(report: ConfirmReport, policy: Policy) -> Interval | None:
    """Return the prediction interval of the challenger's time in µs in one more process.

    The result is None if the processes compared the challenger with another kernel, because a speed-up is then
    predicted instead. It is also None if only one process ran.
    """
    return None if report.repeated_against is not None else predict_time(report, policy.confidence)


def predict_time(report: ConfirmReport | None, confidence: float) -> Interval | None:
    """Return the prediction interval of the challenger's median in µs; None if fewer than two processes timed it."""
    if report is None or report.challenger is None or not report.repeats:
        return None
    medians_us = [report.challenger.median_us, *(each.challenger.median_us for each in report.repeats)]
    return _of_logarithms(prediction_interval, medians_us, confidence)


def times_as_fast(one: Timing, other: Timing) -> float:
    """Return the speed-up of the kernel `one` over the kernel `other`, from rounds that timed both."""
    return paired_ratio(other.samples_us, one.samples_us)


def fastest_baseline(report: ConfirmReport) -> str | None:
    """Return the name of the baseline over which the challenger's speed-up is smallest; None without baselines."""
    challenger = report.challenger
    if challenger is None:
        return None
    return min(report.baselines, key=lambda name: times_as_fast(challenger, report.baselines[name]), default=None)


def _of_logarithms(interval: Callable[[Samples, float], Interval], values: Samples, confidence: float) -> Interval:
    """Return `interval` of the values, computed on their logarithms, so that 2 and ½ are equally far from 1."""
    made = interval(np.log(values), confidence)
    low, estimate, high = (float(np.exp(each)) for each in (made.low, made.estimate, made.high))
    return Interval(low=low, estimate=estimate, high=high)
