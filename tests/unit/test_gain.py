"""The gain of a search is stated over the default config and over the median random config."""

from dataclasses import replace

import numpy as np
import pytest

from evo.promotion.leading import Confirmation
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval
from evo.search.gain import Best, Gain, Tried, coverage, gains
from evo.trial.timing import Timing


def steady(time_us: float, spread: float = 0.001) -> Timing:
    return Timing(samples_us=tuple(time_us * (1 + spread * (index % 5 - 2)) for index in range(40)))


def tried(*blind_us: float | None, default_us: float | None = 60.0) -> list[Tried]:
    default = Tried(
        number=0, origin="warm start", timing=None if default_us is None else steady(default_us), default=True
    )
    return [default, *(_blind(number, time_us) for number, time_us in enumerate(blind_us, 1))]


def _blind(number: int, time_us: float | None) -> Tried:
    return Tried(number=number, origin="design", timing=None if time_us is None else steady(time_us))


def both(best: Best | None, trials: list[Tried], **baselines: float) -> tuple[Gain, Gain]:
    found = gains(best, trials, {name: steady(time_us) for name, time_us in baselines.items()})
    assert [each.over for each in found] == ["default", "random"]
    return found[0], found[1]


def test_gain_from_quick_times_states_interval_and_reference() -> None:
    default, random = both(Best(number=9, timing=steady(20.0)), tried(100.0, 200.0, 80.0, 120.0, 90.0, 110.0))
    assert default.ratio is not None and default.ratio.estimate == pytest.approx(3.0)
    assert default.ratio.low < 3.0 < default.ratio.high < 3.02
    assert default.provisional and default.words.startswith("Provisional: 3")
    assert (
        "as fast as the default config (trial 0)" in default.words
        and "quick samples at different times" in default.words
    )
    assert random.ratio is not None and random.ratio.estimate == pytest.approx(105.0 / 20.0)
    assert random.ratio.low == pytest.approx(4.0, rel=0.01) and random.ratio.high == pytest.approx(10.0, rel=0.01)
    assert "median of 6 random configs" in random.words and "95% interval" in random.words


def test_gain_over_the_default_uses_confirmed_speedups_over_a_common_baseline() -> None:
    """The device was half as fast during the confirmation. This must not reduce the gain of the config."""
    found = Confirmation(
        time=Interval(low=39.0, estimate=40.0, high=41.0),
        speedup=Interval(low=2.4, estimate=2.5, high=2.6),
        baseline="numpy",
    )
    default, _ = both(Best(number=9, timing=steady(19.0), confirmation=found), tried(), numpy=50.0)
    assert default.ratio is not None and default.ratio.estimate == pytest.approx(60.0 / (50.0 / 2.5))
    assert default.ratio.low == pytest.approx(3.0 * 2.4 / 2.5, rel=0.01)
    assert "confirmed speed-up over numpy" in default.words
    alone, _ = both(Best(number=9, timing=steady(19.0), confirmation=found), tried())
    assert alone.ratio is not None and alone.ratio.estimate == pytest.approx(60.0 / 19.0), (
        "both times are from quick samples"
    )
    assert "by quick samples" in alone.words


def test_paired_confirmation_decides_the_gain_over_the_default() -> None:
    """Quick samples show a speed-up of 3. The confirmation, which timed both configs in the same rounds, shows 0.98."""
    found = Confirmation(
        time=Interval(low=39.0, estimate=40.0, high=41.0),
        speedup=Interval(low=2.4, estimate=2.5, high=2.6),
        baseline="numpy",
    )
    paired = Interval(low=0.97, estimate=0.98, high=0.99)
    best = Best(number=9, timing=steady(20.0), confirmation=found, over_default=paired)
    default, random = both(best, tried(100.0, 100.0, 100.0), numpy=50.0)
    assert default.ratio == paired and not default.provisional
    assert default.words.startswith("0.98") and "in the same rounds" in default.words
    assert random.provisional and random.words.startswith("Provisional: ")


def test_gain_over_random_configs_is_unclear_if_quick_and_confirmed_times_disagree() -> None:
    """By quick samples, the best config is 1.01 times as fast as the median; by its confirmation, 0.97 times."""
    found = Confirmation(
        time=Interval(low=50.0, estimate=50.2, high=50.4),
        speedup=Interval(low=4.38, estimate=4.39, high=4.4),
        baseline="numpy",
    )
    best = Best(number=9, timing=steady(47.6), confirmation=found)
    _, random = both(best, tried(48.0, 48.2, 48.4), numpy=219.2)
    assert random.ratio is None
    assert random.words.startswith("Unclear: 0.9653×") and "but 1.01" in random.words
    slower = both(replace(best, timing=steady(49.9)), tried(48.0, 48.2, 48.4), numpy=219.2)[1]
    assert slower.ratio is not None


def test_contradictory_gains_are_reported_as_unclear() -> None:
    """Quick samples show a speed-up of 1.03. The confirmation, whose baseline was disturbed, shows 0.56."""
    found = Confirmation(
        time=Interval(low=54.0, estimate=54.5, high=55.0),
        speedup=Interval(low=7.0, estimate=12.0, high=19.0),
        baseline="numpy",
    )
    default, _ = both(Best(number=5, timing=steady(58.3), confirmation=found), tried(default_us=60.0), numpy=1286.0)
    assert default.ratio is None
    assert default.words.startswith("Unclear: 0.5599×") and "but 1.03× by quick samples alone" in default.words


def test_gain_is_the_ratio_of_both_confirmed_speedups_over_the_same_baseline() -> None:
    def confirmed(speedup: float, baseline: str) -> Confirmation:
        interval = Interval(low=speedup * 0.99, estimate=speedup, high=speedup * 1.01)
        return Confirmation(time=Interval(low=1.0, estimate=1.0, high=1.0), speedup=interval, baseline=baseline)

    best = Best(number=9, timing=steady(20.0), confirmation=confirmed(2.2, "numpy"))
    (trial,) = tried()
    default, _ = both(best, [replace(trial, confirmation=confirmed(2.0, "numpy"))], numpy=50.0)
    assert default.ratio is not None and default.ratio.estimate == pytest.approx(1.1)
    assert not default.provisional and "of both over numpy" in default.words
    other, _ = both(best, [replace(trial, confirmation=confirmed(2.0, "torch"))], numpy=50.0)
    assert other.ratio is not None and other.ratio.estimate == pytest.approx(60.0 / (50.0 / 2.2)) and other.provisional


def test_text_of_a_missing_gain_states_the_reason() -> None:
    best = Best(number=9, timing=steady(20.0))
    default, random = both(best, tried(100.0, None, 90.0, default_us=None))
    assert default.ratio is None and "could not be timed" in default.words
    assert random.ratio is None and "2 random trials timed, 3 are needed; 1 more could not be timed" in random.words
    untried, _ = both(best, [])
    assert untried.ratio is None and "was not tried" in untried.words
    itself, _ = both(Best(number=0, timing=steady(60.0)), tried())
    assert itself.ratio == Interval(low=1.0, estimate=1.0, high=1.0) and "found no faster one" in itself.words
    assert gains(None, tried(), {}) == ()


def test_gain_over_few_random_trials_states_a_lower_confidence() -> None:
    assert coverage(3) == 0.75 and coverage(5) == pytest.approx(0.9375) and coverage(6) == coverage(60) == CONFIDENCE
    _, random = both(Best(number=9, timing=steady(20.0)), tried(100.0, 200.0, 150.0))
    assert random.confidence == 0.75 and "75% interval" in random.words


@pytest.mark.parametrize("count", [3, 5, 8, 20])
def test_gain_interval_covers_the_median_random_config_with_the_stated_frequency(count: int) -> None:
    rng, hits, draws = np.random.default_rng(7), 0, 2000
    for _ in range(draws):
        interval = order_interval(rng.lognormal(0.0, 0.5, count), CONFIDENCE)
        hits += interval.low <= 1.0 <= interval.high
    assert hits / draws >= coverage(count) - 0.02


def test_trials_of_a_learning_strategy_do_not_count_as_random_configs() -> None:
    learned = [Tried(number=number, origin="tpe", timing=steady(21.0)) for number in range(1, 9)]
    _, random = both(Best(number=9, timing=steady(20.0)), [*tried(100.0, 100.0, 100.0), *learned])
    assert random.trials == 3 and random.ratio is not None and random.ratio.estimate == pytest.approx(5.0)
