"""Statistics of samples: intervals, effect size and a paired test. All are deterministic for a given random generator.

SciPy is imported inside the functions because loading it takes a second and most users of `Interval` do not need it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Samples: TypeAlias = Sequence[float] | NDArray[np.float64]

RESAMPLES = 2000
"""Number of bootstrap resamples: the ends of an interval vary between seeds by less than a tenth of its width.
"""

BATCH = 10
"""Usual number of consecutive samples per batch in `median_error`."""

EFFECT_CAP = 1e6
"""Largest effect size. It replaces infinity (two different constant series), because JSON has no infinity."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with its confidence or prediction interval."""

    low: float
    estimate: float
    high: float

    def overlaps(self, other: "Interval") -> bool:
        """Return True if the intervals have at least one common point."""
        return self.low <= other.high and other.low <= self.high

    def reach(self, around: float) -> float:
        """Return the largest distance between `around` and a point of the interval."""
        return max(abs(around - self.low), abs(self.high - around))


def bootstrap_interval(samples: Samples, confidence: float, rng: np.random.Generator) -> Interval:
    """Return a percentile bootstrap interval of the median.

    The percentile method is used because the acceleration of BCa is undefined if most samples are equal, e.g. with a
    coarse clock or a recorded space. For medians, the two methods differ by less than the spacing of the samples.

    Args:
        samples: at least one sample. A single sample gives an interval of zero width.
        confidence: probability as a fraction, e.g. 0.95.

    Source: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
    """
    values = np.asarray(samples, dtype=np.float64)
    return _resampled((values,), lambda series, axis: np.median(series, axis=axis), confidence, rng)


CONFIDENCE = 0.95
"""Confidence of the interval shown with a median, unless a policy sets a different one."""


def at_most_one_in(right: int, confidence: float) -> int:
    """Return the largest N such that `right` correct calls, and no wrong call, prove an error rate below 1 in N.

    N is computed from the exact binomial bound. With 95 % confidence, it is about a third of `right`.

    Args:
        right: number of correct calls. For 0, the result is 1, because nothing is known.
        confidence: probability as a fraction, e.g. 0.95.

    Source: Clopper and Pearson, Biometrika 26 (1934), 404-413.
    """
    if right < 1:
        return 1
    return int(1.0 / -math.expm1(math.log1p(-confidence) / right))


def order_interval(samples: Samples, confidence: float) -> Interval:
    """Return a distribution-free interval of the median, between two order statistics.

    All displayed intervals of medians use this function. It needs no random generator, so equal samples always give the
    same interval, and it is fast enough for every line of a table.

    Args:
        samples: at least one sample. If there are too few for the confidence, the interval is the whole range.
        confidence: probability as a fraction, e.g. 0.95.

    Source: Conover, Practical Nonparametric Statistics, 3rd ed. (1999), section 3.2.
    """
    values = np.sort(np.asarray(samples, dtype=np.float64))
    count = len(values)
    cut, median = _outside(count, confidence), (values[(count - 1) // 2] + values[count // 2]) / 2
    return Interval(low=float(values[cut]), estimate=float(median), high=float(values[-1 - cut]))


@cache
def _outside(count: int, confidence: float) -> int:
    """Return how many of the sorted samples an order-statistic interval of this confidence omits at each end."""
    cut, below = 0, 0.5**count
    while below <= (1.0 - confidence) / 2.0 and cut < (count - 1) // 2:
        cut += 1
        below += math.comb(count, cut) / 2**count
    return cut if below <= (1.0 - confidence) / 2.0 else max(0, cut - 1)


def ratio_interval(a: Samples, b: Samples, confidence: float, rng: np.random.Generator) -> Interval:
    """Return a bootstrap interval of the median of a / b over rounds.

    A disturbance that slows both series in the same round does not change the ratio.

    Args:
        a, b: series of equal length; entry i of both was taken in round i.
    """
    return bootstrap_interval(rounds_ratio(a, b), confidence, rng)


def paired_ratio(a: Samples, b: Samples) -> float:
    """Return the median of a / b over rounds. All estimates of speed-ups are computed in this way.

    Args:
        a, b: series of equal length; entry i of both was taken in round i.
    """
    return float(np.median(rounds_ratio(a, b)))


def rounds_ratio(a: Samples, b: Samples) -> NDArray[np.float64]:
    """Return a / b for each round; both series must have the same length."""
    first, second = _paired(a, b)
    return first / second


def unshared(a: Samples, b: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two series without the variation that they share, e.g. from drift or other programs on the machine.

    The ratio of the returned medians is the median ratio over rounds. On a logarithmic scale, the standard deviation of
    each returned series is that of the ratio divided by √2. Two independent series of equal standard deviation, whose
    ratio varies as much, would have this standard deviation.

    Args:
        a, b: series of equal length; entry i of both was taken in round i.
    """
    first, second = _paired(a, b)
    ratios = np.log(first / second)
    half, own = np.median(ratios) / 2.0, (ratios - np.median(ratios)) / math.sqrt(2.0)
    centre = math.sqrt(float(np.median(first)) * float(np.median(second)))
    return centre * np.exp(half + own), centre * np.exp(-half - own)


def independent_ratio_interval(a: Samples, b: Samples, confidence: float, rng: np.random.Generator) -> Interval:
    """Return a bootstrap interval of median(a) / median(b) for two series that were measured separately."""
    series = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    return _resampled(series, _median_ratio, confidence, rng)


def prediction_interval(values: Samples, confidence: float, *, least_spread: float = 0.0) -> Interval:
    """Return a prediction interval for one more value of a normal distribution with unknown mean and variance.

    The interval contains all given values. If there are many values (at 95 % confidence, nine or more), one of them may
    be outside the limits for a normal distribution. The interval is then extended to this value.

    Args:
        values: at least two values.
        confidence: probability as a fraction, e.g. 0.95.
        least_spread: lower limit of the standard deviation. It is used if a few values agree better by chance.

    Source: Hahn and Meeker, Statistical Intervals (1991), section 4.6.
    """
    normal = _student(values, math.sqrt(1.0 + 1.0 / len(values)), confidence, least_spread=least_spread)
    low, high = float(np.min(values)), float(np.max(values))
    return replace(normal, low=min(normal.low, low), high=max(normal.high, high))


def median_error(series: Samples, batch: int = BATCH) -> float:
    """Return the standard error of the median of correlated samples, from batch medians; 0 for fewer than two batches.

    By default, a batch has 10 consecutive samples, so that most disturbances affect only one batch.

    Args:
        batch: number of samples per batch, at least 1.

    Source: Law, Simulation Modeling and Analysis, 5th ed. (2015), section 9.5.3, with medians in place of means.
    """
    values = np.asarray(series, dtype=np.float64)
    batches = len(values) // batch
    if batches < 2:
        return 0.0
    medians = np.median(values[: batches * batch].reshape(batches, batch), axis=1)
    return float(medians.std(ddof=1)) / math.sqrt(batches)


def unequal_variances(variances: Samples, freedom: int, level: float) -> bool:
    """Return True if Bartlett's test finds that normal samples have different variances.

    The test also rejects samples that are not normally distributed. If all variances are zero, the result is False. If
    only some of them are zero, the result is True.

    Args:
        variances: variance of each of two or more samples, each with `freedom` degrees of freedom.
        freedom: at least 1.
        level: probability of the result True for normal samples with equal variances, e.g. 0.05.

    Source: Snedecor and Cochran, Statistical Methods, 8th ed. (1989), section 13.10.
    """
    from scipy.special import chdtrc

    values = np.asarray(variances, dtype=np.float64)
    if not values.any():
        return False
    if not values.all():
        return True
    count = len(values)
    statistic = count * freedom * math.log(float(values.mean())) - freedom * float(np.log(values).sum())
    correction = 1.0 + (count / freedom - 1.0 / (count * freedom)) / (3.0 * (count - 1))
    return float(chdtrc(count - 1, statistic / correction)) < level


def mean_interval(values: Samples, confidence: float) -> Interval:
    """Return a confidence interval of the mean of a normal distribution with unknown variance.

    Args:
        values: at least two values.
        confidence: probability as a fraction, e.g. 0.95.

    Source: Hahn and Meeker, Statistical Intervals (1991), section 4.2.
    """
    return _student(values, math.sqrt(1.0 / len(values)), confidence)


@cache
def upper_quantile(level: float, freedom: int) -> float:
    """Return the value that a variable with Student's t distribution exceeds with probability `level`."""
    from scipy.special import stdtrit

    return -float(stdtrit(freedom, level))


def _student(values: Samples, widening: float, confidence: float, *, least_spread: float = 0.0) -> Interval:
    """Return the interval mean ± (quantile of Student's t) · (standard deviation) · `widening`."""
    known = np.asarray(values, dtype=np.float64)
    mean, spread = float(known.mean()), max(float(known.std(ddof=1)), least_spread)
    reach = upper_quantile(0.5 - confidence / 2.0, len(known) - 1) * spread * widening
    return Interval(low=mean - reach, estimate=mean, high=mean + reach)


def hedges_g(a: Samples, b: Samples, *, trim: float = 0.0) -> float:
    """Return Hedges' g: the difference of the means in pooled standard deviations, corrected for small samples.

    The difference is the mean of `b` minus the mean of `a`, so the result is positive if `a` is faster. The result is
    limited to ±`EFFECT_CAP`.

    Args:
        a, b: series of at least two samples.
        trim: fraction of samples removed from each end of both series. Values above 0 use trimmed means and Winsorised
            variances, so that a few interrupted samples do not hide a difference.

    Source: Hedges, Distribution theory for Glass's estimator of effect size, J. Educational Statistics 6 (1981),
    107-128; with `trim`: Algina, Keselman and Penfield, Psychological Methods 10 (2005), 317-328.
    """
    mean_a, variance_a, count_a = _trimmed(a, trim)
    mean_b, variance_b, count_b = _trimmed(b, trim)
    freedom = count_a + count_b - 2
    pooled = np.sqrt(((count_a - 1) * variance_a + (count_b - 1) * variance_b) / freedom)
    difference = mean_b - mean_a
    if pooled == 0.0:
        return float(np.sign(difference) * EFFECT_CAP)
    d = _normal_winsorised_deviation(trim) * difference / pooled
    return float(np.clip(_small_sample_correction(freedom) * d, -EFFECT_CAP, EFFECT_CAP))


def paired_p_value(a: Samples, b: Samples) -> float:
    """Return the p-value of a one-sided Wilcoxon signed-rank test that `a` is faster than `b`, paired by round.

    Args:
        a, b: series of equal length; entry i of both was taken in round i. Rounds with equal times are ignored. If the
            times are equal in all rounds, the result is 1.
    """
    from scipy.stats import wilcoxon

    first, second = _paired(a, b)
    if np.array_equal(first, second):
        return 1.0
    return float(wilcoxon(first, second, alternative="less").pvalue)


def rank_sum_p_value(a: Samples, b: Samples) -> float:
    """Return the p-value of a two-sided, unpaired Mann-Whitney test for different distributions."""
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(a, b, alternative="two-sided").pvalue)


def _resampled(
    series: tuple[NDArray[np.float64], ...], statistic: Any, level: float, rng: np.random.Generator
) -> Interval:
    """Return the percentile interval of a statistic over `RESAMPLES` bootstrap samples of each series.

    `scipy.stats.bootstrap` gives the same interval, but importing it takes a second in each process that judges.
    """
    estimate = float(statistic(*series, axis=-1))
    if min(map(len, series)) < 2:
        return Interval(low=estimate, estimate=estimate, high=estimate)
    drawn = [each[rng.integers(0, len(each), (RESAMPLES, len(each)))] for each in series]
    low, high = np.percentile(statistic(*drawn, axis=-1), [50.0 * (1.0 - level), 50.0 * (1.0 + level)])
    return Interval(low=min(float(low), estimate), estimate=estimate, high=max(float(high), estimate))


def _median_ratio(a: NDArray[np.float64], b: NDArray[np.float64], axis: int) -> Any:
    return np.median(a, axis=axis) / np.median(b, axis=axis)


def _paired(a: Samples, b: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"paired series must be equally long, not {len(first)} and {len(second)}")
    return first, second


def _trimmed(samples: Samples, trim: float) -> tuple[float, float, int]:
    """Return the trimmed mean, the Winsorised variance, and the number of samples before trimming."""
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    count = len(ordered)
    cut = int(trim * count)
    kept = ordered[cut : count - cut]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    return float(kept.mean()), float(winsorised.var(ddof=1)), count


def _normal_winsorised_deviation(trim: float) -> float:
    """Return the standard deviation of a standard normal variable Winsorised by `trim` at each end (0.642 for 20 %)."""
    if trim == 0.0:
        return 1.0
    normal = NormalDist()
    z = normal.inv_cdf(1.0 - trim)
    return math.sqrt(1.0 - 2.0 * trim - 2.0 * z * normal.pdf(z) + 2.0 * trim * z * z)


def _small_sample_correction(freedom: int) -> float:
    """Return J(m) = Γ(m/2) / (√(m/2) Γ((m−1)/2)), which Hedges (1981), equation 6e, approximates by 1 − 3/(4m−1)."""
    half = freedom / 2.0
    return math.exp(math.lgamma(half) - math.lgamma(half - 0.5)) / math.sqrt(half)
