"""The statistics of the verdict agree with published effect sizes, intervals, p-values and error rates."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from evo.promotion.statistics import (
    EFFECT_CAP,
    RESAMPLES,
    Interval,
    at_most_one_in,
    bootstrap_interval,
    hedges_g,
    independent_ratio_interval,
    median_error,
    order_interval,
    paired_p_value,
    prediction_interval,
    ratio_interval,
    unequal_variances,
    unshared,
    upper_quantile,
)


def series(mean: float, deviation: float, count: int) -> np.ndarray:
    """Return a series with exactly this mean and sample standard deviation."""
    raw = np.arange(count, dtype=float)
    centred: npt.NDArray[np.float64] = raw - raw.mean()
    return mean + deviation * centred / float(raw.std(ddof=1))


def test_hedges_g_agrees_with_the_published_worked_example() -> None:
    """Borenstein, Hedges, Higgins and Rothstein, Introduction to Meta-Analysis (2009), chapter 4:
    means 103 and 100, deviations 5.5 and 4.5, 50 each: d = 0.5970, J = 0.9923, g = 0.5924."""
    assert hedges_g(series(100, 4.5, 50), series(103, 5.5, 50)) == pytest.approx(0.5924, abs=5e-5)


@pytest.mark.parametrize(("freedom", "correction"), [(2, 0.5642), (3, 0.7236), (4, 0.7979), (5, 0.8408), (10, 0.9228)])
def test_small_sample_correction_agrees_with_the_table_of_hedges(freedom: int, correction: float) -> None:
    """Hedges (1981), table 1, lists the correction. It equals g if deviations and mean difference are 1."""
    first = freedom // 2 + 1
    a, b = series(0, 1, first), series(1, 1, freedom + 2 - first)
    assert hedges_g(a, b) == pytest.approx(correction, abs=1e-4)


def test_hedges_g_changes_its_sign_with_the_order_of_the_series() -> None:
    assert hedges_g([3.0, 4.0, 5.0], [1.0, 2.0, 3.0]) == -hedges_g([1.0, 2.0, 3.0], [3.0, 4.0, 5.0]) < 0


def test_hedges_g_of_constant_series_is_finite() -> None:
    assert hedges_g([1.0, 1.0], [2.0, 2.0]) == EFFECT_CAP
    assert hedges_g([1.0, 1.0], [1.0, 1.0]) == 0.0


def test_trimmed_effect_equals_the_untrimmed_effect_on_normal_samples() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(100, 5, 20_000), rng.normal(105, 5, 20_000)
    assert hedges_g(a, b, trim=0.2) == pytest.approx(hedges_g(a, b), abs=0.03)


def test_trimmed_effect_is_large_despite_interruptions() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(100, 2, 100), rng.normal(105, 2, 100)
    a[::25] *= 2.0
    assert hedges_g(a, b) < 0.8 < hedges_g(a, b, trim=0.2)


def test_bootstrap_interval_of_the_median_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(5)
    covered = sum(
        interval.low <= 100.0 <= interval.high
        for interval in (bootstrap_interval(rng.normal(100, 5, 100), 0.95, rng) for _ in range(200))
    )
    assert 181 <= covered <= 199


def test_bootstrap_interval_depends_only_on_samples_and_generator() -> None:
    samples = np.random.default_rng(6).normal(100, 5, 40)
    first = bootstrap_interval(samples, 0.95, np.random.default_rng(7))
    assert first == bootstrap_interval(list(samples), 0.95, np.random.default_rng(7))
    assert first.estimate == np.median(samples)


@pytest.mark.parametrize("samples", [[5.0], [5.0] * 30])
def test_bootstrap_interval_without_spread_has_no_width(samples: list[float]) -> None:
    assert bootstrap_interval(samples, 0.95, np.random.default_rng(0)) == Interval(low=5.0, estimate=5.0, high=5.0)


def test_ratio_interval_cancels_drift_that_both_series_share() -> None:
    rng = np.random.default_rng(8)
    drift = np.linspace(1.0, 1.5, 100)
    a, b = 100 * drift * rng.normal(1, 0.002, 100), 105 * drift * rng.normal(1, 0.002, 100)
    ratio = ratio_interval(b, a, 0.95, rng)
    assert ratio.low < 1.05 < ratio.high
    assert ratio.high - ratio.low < 0.01


def test_paired_p_value_matches_the_signed_rank_distribution() -> None:
    """If all eight rounds are faster, the p-value is the probability of one sign pattern, 1 / 2⁸."""
    a = np.arange(1.0, 9.0)
    assert paired_p_value(a, a + np.linspace(0.1, 0.8, 8)) == pytest.approx(1 / 2**8)
    assert paired_p_value(a + np.linspace(0.1, 0.8, 8), a) == pytest.approx(1.0)


def test_paired_p_value_of_equal_series_is_one() -> None:
    assert paired_p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0


def test_paired_p_value_refuses_series_of_different_length() -> None:
    with pytest.raises(ValueError, match="equally long, not 3 and 2"):
        paired_p_value([1.0, 2.0, 3.0], [1.0, 2.0])


times = st.lists(st.floats(min_value=0.01, max_value=1e6), min_size=2, max_size=60)


@given(samples=times, confidence=st.sampled_from([0.5, 0.9, 0.99]))
def test_bootstrap_interval_is_ordered_and_within_the_samples(samples: list[float], confidence: float) -> None:
    interval = bootstrap_interval(samples, confidence, np.random.default_rng(0))
    rounding = 1 + 1e-12  # tolerance for interpolation between two samples
    assert interval.low <= interval.estimate <= interval.high
    assert min(samples) <= interval.low * rounding
    assert interval.high <= max(samples) * rounding


@given(samples=times, other=times, trim=st.sampled_from([0.0, 0.2]))
def test_hedges_g_is_antisymmetric_and_finite(samples: list[float], other: list[float], trim: float) -> None:
    effect = hedges_g(samples, other, trim=trim)
    assert effect == pytest.approx(-hedges_g(other, samples, trim=trim), rel=1e-9, abs=1e-9)
    assert abs(effect) <= EFFECT_CAP


@pytest.mark.parametrize(
    ("other", "overlap"),
    [((2.0, 2.5, 3.0), True), ((2.1, 2.5, 3.0), False), ((0.0, 0.5, 0.9), False), ((0.0, 1.5, 3.0), True)],
)
def test_overlap_of_two_intervals_is_symmetric(other: tuple[float, float, float], overlap: bool) -> None:
    mine, theirs = Interval(low=1.0, estimate=1.5, high=2.0), Interval(low=other[0], estimate=other[1], high=other[2])
    assert mine.overlaps(theirs) is theirs.overlaps(mine) is overlap


def test_order_statistic_interval_has_the_published_ranks() -> None:
    # Conover (1999) lists these ranks of the 95 % interval of a median.
    for count, rank in ((6, 1), (9, 2), (10, 2), (40, 14), (100, 40)):
        interval = order_interval([float(index) for index in range(1, count + 1)], 0.95)
        assert (interval.low, interval.high) == (rank, count + 1 - rank)
    assert order_interval([3.0, 1.0], 0.95).low == 1.0, "too few samples give the whole range"
    assert order_interval([1.0] * 5000, 0.95).high == 1.0


def test_removing_shared_slowdowns_reveals_a_hidden_effect() -> None:
    rng = np.random.default_rng(3)
    shared = rng.lognormal(0, 0.5, 200)
    first, second = (time_us * shared * rng.lognormal(0, 0.01, 200) for time_us in (95.0, 100.0))
    apart = unshared(first, second)
    assert np.median(apart[1]) / np.median(apart[0]) == pytest.approx(np.median(second / first), rel=1e-6)
    assert [float(np.std(np.log(series))) for series in apart] == pytest.approx([0.01, 0.01], rel=0.2)
    assert hedges_g(first, second) < 0.3
    assert hedges_g(*apart) > 3


def test_removing_shared_slowdowns_keeps_the_effect_size_of_independent_series() -> None:
    rng = np.random.default_rng(4)
    first, second = (time_us * rng.lognormal(0, 0.03, 4000) for time_us in (97.0, 100.0))
    assert hedges_g(*unshared(first, second)) == pytest.approx(hedges_g(first, second), rel=0.05)


def test_median_error_includes_correlated_noise() -> None:
    """For independent samples, the error is 1.25 σ / √n. It is larger for samples in runs of equal values."""
    rng = np.random.default_rng(0)
    alone = np.sqrt(np.mean([median_error(rng.normal(0, 1, 100)) ** 2 for _ in range(400)]))
    runs = np.sqrt(np.mean([median_error(np.repeat(rng.normal(0, 1, 10), 10)) ** 2 for _ in range(400)]))
    assert alone == pytest.approx(1.2533 / 10, rel=0.1)
    assert runs == pytest.approx(1 / np.sqrt(10), rel=0.1)
    assert median_error([1.0, 2.0] * 9) == 0.0


def test_median_error_of_longer_batches_includes_longer_disturbances() -> None:
    series = np.repeat([0.0, 1.0], 25)
    assert median_error(series, batch=25) == pytest.approx(0.5)
    assert median_error(series, batch=26) == 0.0


def test_bartlett_test_rejects_equal_variances_at_its_level() -> None:
    rng = np.random.default_rng(0)
    equal = rng.normal(0.0, 1.0, (2000, 5, 5)).var(axis=2, ddof=1)
    assert np.mean([unequal_variances(each, 4, 0.05) for each in equal]) == pytest.approx(0.05, abs=0.015)
    assert np.mean([unequal_variances(each * [1, 1, 1, 1, 100], 4, 0.05) for each in equal]) > 0.6


def test_bartlett_test_agrees_with_scipy() -> None:
    from scipy.stats import bartlett

    samples = np.random.default_rng(1).normal(0.0, [[1.0], [1.5], [3.0]], (3, 6))
    level = float(bartlett(*samples).pvalue)
    variances = samples.var(axis=1, ddof=1)
    assert unequal_variances(variances, 5, level * 1.01)
    assert not unequal_variances(variances, 5, level * 0.99)


def test_variances_of_zero_differ_only_from_other_variances() -> None:
    assert not unequal_variances([0.0, 0.0], 4, 0.05)
    assert unequal_variances([0.0, 1.0], 4, 0.05)


def test_prediction_interval_assumes_at_least_the_given_spread() -> None:
    close = prediction_interval([1.0, 1.0, 1.0], 0.95, least_spread=0.1)
    assert close.high - close.estimate == pytest.approx(4.303 * 0.1 * np.sqrt(4 / 3), rel=1e-3)
    assert prediction_interval([1.0, 2.0], 0.95, least_spread=0.1) == prediction_interval([1.0, 2.0], 0.95)


def test_prediction_interval_contains_all_given_values() -> None:
    found = prediction_interval([0.0] * 10 + [1.0], 0.95)
    assert found.high == 1.0
    assert found.low == pytest.approx(1 / 11 - 2.228 * np.sqrt(1 / 11) * np.sqrt(12 / 11), rel=1e-3)


@pytest.mark.parametrize("right", [1, 3, 60, 299, 4136])
def test_error_rate_bound_after_correct_outputs_has_its_nominal_coverage(right: int) -> None:
    one_in = at_most_one_in(right, 0.95)
    escapes = (1.0 - 1.0 / one_in) ** right if one_in > 1 else 0.0
    assert escapes <= 0.05
    assert (1.0 - 1.0 / (one_in + 1)) ** right > 0.05, "the bound is not lower than necessary"


def test_error_rate_bound_without_checked_outputs_is_one() -> None:
    assert at_most_one_in(0, 0.95) == 1


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999])
@pytest.mark.parametrize("count", [2, 3, 40])
def test_bootstrap_intervals_equal_those_of_scipy(count: int, confidence: float) -> None:
    a, b = (np.random.default_rng(seed).lognormal(size=count + seed) for seed in (0, 5))
    settings: dict[str, Any] = {
        "n_resamples": RESAMPLES,
        "confidence_level": confidence,
        "method": "percentile",
        "vectorized": True,
    }
    found = bootstrap_interval(a, confidence, np.random.default_rng(7))
    expected = scipy.stats.bootstrap((a,), np.median, **settings, rng=np.random.default_rng(7)).confidence_interval
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12)

    def ratio(one: np.ndarray, other: np.ndarray, axis: int) -> Any:
        return np.median(one, axis=axis) / np.median(other, axis=axis)

    found = independent_ratio_interval(a, b, confidence, np.random.default_rng(7))
    expected = scipy.stats.bootstrap((a, b), ratio, **settings, rng=np.random.default_rng(7)).confidence_interval
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("freedom", [1, 4, 14, 99])
@pytest.mark.parametrize("level", [0.5, 0.025, 0.001, 1e-5])
def test_student_t_quantiles_equal_those_of_scipy(level: float, freedom: int) -> None:
    assert upper_quantile(level, freedom) == pytest.approx(scipy.stats.t.isf(level, freedom), rel=1e-9, abs=1e-12)
