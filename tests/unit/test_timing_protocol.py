"""The timing protocol prunes slow candidates, interleaves rounds, and empties caches on request."""

import gc
from collections.abc import Sequence
from functools import partial
from itertools import cycle

import numpy as np
import pytest

from evo.device.estimate.roofline import cold_sets
from evo.promotion import straddles
from evo.promotion.policy import Policy
from evo.trial.timing import Bars
from tests.unit.fake_session import FakeBuffers, FakeSession, ScriptedTimer
from workers.backends import Buffers
from workers.build.kernel import Argument
from workers.measure.baselines import Baselines
from workers.measure.checks.overwrite import (
    MIXED_SETS,
    MOST_ROUNDS,
    USUAL_ROUNDS,
    mixed_sets,
    overwrite_check,
    ring_sets,
)
from workers.measure.timing import (
    ROUND_US,
    WARM_US,
    ReferenceTimers,
    Taken,
    fitting_rounds,
    interleave,
    repeats,
    take,
    undisturbed,
)
from workers.runner.protocol import Compare

RNG = np.random.default_rng


@pytest.mark.parametrize(
    ("cache_bytes", "held", "sets"),
    [(32 << 20, 2 << 20, 81), (1 << 20, 64 << 20, 2), (0, 1 << 20, 2), (1 << 40, 1 << 20, 1024), (32 << 20, 8, 4096)],
)
def test_cold_buffer_sets_exceed_five_times_the_cache_if_limits_permit(cache_bytes: int, held: int, sets: int) -> None:
    assert cold_sets(cache_bytes, held, memory_bytes=4 << 30) == sets


def test_slow_candidate_is_pruned_after_a_fifth_of_the_samples() -> None:
    assert take(ScriptedTimer([10.0]), 40, bars=Bars(prune_us=9.0)) == Taken(samples_us=(10.0,) * 8, pruned=True)


def test_few_slow_early_samples_do_not_prune_a_candidate() -> None:
    samples = [100.0, 100.0, 100.0, *[5.0] * 37]
    assert take(ScriptedTimer(samples), 40, bars=Bars(prune_us=9.0)) == Taken(samples_us=tuple(samples))


def test_slow_later_samples_do_not_prune_a_fast_candidate() -> None:
    taken = take(ScriptedTimer([*[5.0] * 8, *[50.0] * 32]), 40, bars=Bars(prune_us=9.0, shorten_us=9.0))
    assert (len(taken.samples_us), taken.pruned) == (40, False)


def test_candidate_clearly_slower_than_the_elites_gets_fewer_samples() -> None:
    timer, proven = ScriptedTimer([8.0]), list[int]()
    bars = Bars(prune_us=9.0, shorten_us=7.0)
    taken = take(timer, 40, bars=bars, before_last=lambda: proven.append(len(timer.asked)))
    assert (taken, proven) == (Taken(samples_us=(8.0,) * 9), [8])


def test_disturbed_first_samples_do_not_end_sampling_early() -> None:
    samples = [*[8.0] * 5, *[5.0] * 35]
    assert len(take(ScriptedTimer(samples), 40, bars=Bars(shorten_us=7.0)).samples_us) == 40


@pytest.mark.parametrize("samples", [1, 2])
def test_sampling_takes_exactly_a_small_requested_number_of_samples(samples: int) -> None:
    assert len(take(ScriptedTimer([8.0]), samples, bars=Bars(shorten_us=7.0)).samples_us) == samples


def test_before_last_hook_is_called_directly_before_the_last_sample() -> None:
    timer = ScriptedTimer([1.0])
    seen: list[int] = []
    take(timer, 5, before_last=lambda: seen.append(len(timer.asked)))
    assert seen == [4]


def test_after_hook_is_called_after_every_sample_except_the_warm_up() -> None:
    for last_us, samples in ((WARM_US / 2, 10), (WARM_US, 5)):
        timer, judged = ScriptedTimer([last_us]), list[int]()
        take(timer, 5, after=lambda timer=timer, judged=judged: judged.append(len(timer.asked)), warm=True)  # type: ignore[misc]
        assert (len(timer.asked), len(judged)) == (samples, 5)
    asked: list[str] = []
    interleave({"a": ScriptedTimer([ROUND_US])}, 3, rng=RNG(0), warm=False, after=asked.append)
    assert asked == ["a"] * 3


def test_interleaved_rounds_sample_each_kernel_once_in_every_order() -> None:
    asked: list[str] = []
    timers = {name: ScriptedTimer([ROUND_US], name, asked) for name in "abc"}
    taken = interleave(timers, 30, rng=RNG(0), warm=False)
    rounds = ["".join(asked[start : start + 3]) for start in range(0, len(asked), 3)]
    assert all(sorted(each) == ["a", "b", "c"] for each in rounds)
    assert {each[1:] for each in rounds} == {"ab", "ac", "ba", "bc", "ca", "cb"}
    assert {name: len(samples) for name, samples in taken.items()} == {"a": 30, "b": 30, "c": 30}


@pytest.mark.parametrize("rounds", [100, 101])
def test_each_of_two_timers_is_first_in_half_of_the_rounds(rounds: int) -> None:
    orders = set()
    for seed in range(3):
        asked: list[str] = []
        interleave({name: ScriptedTimer([ROUND_US], name, asked) for name in "abc"}, rounds, rng=RNG(seed), warm=False)
        order = ["".join(asked[start : start + 3]) for start in range(0, len(asked), 3)]
        for one, other in ("ab", "ac", "bc"):
            first = sum(each.index(one) < each.index(other) for each in order)
            assert abs(2 * first - rounds) <= rounds % 2
        orders.add(tuple(order))
    assert len(orders) == 3


def test_interruptions_and_too_short_samples_do_not_change_the_time_of_a_round() -> None:
    own_us = ROUND_US / 5
    timer = ScriptedTimer([own_us, 40 * own_us, own_us / 2, 7 * own_us, own_us])
    assert interleave({"a": timer}, 4, rng=RNG(0), warm=False) == {"a": [own_us] * 4}
    assert len(timer.asked) == 4 * 5


@pytest.mark.parametrize(("sample_us", "count"), [(1, 10), (500, 10), (1_000, 5), (2_500, 2), (80_000, 1)])
def test_round_repeats_short_samples_for_up_to_five_milliseconds(sample_us: float, count: int) -> None:
    assert repeats(sample_us) == count


def test_warm_up_repeats_samples_of_short_kernels_only() -> None:
    asked: list[str] = []
    timers = {"short": ScriptedTimer([0.4 * WARM_US], "s", asked), "long": ScriptedTimer([WARM_US], "l", asked)}
    taken = interleave(timers, 3, rng=RNG(0), warm=True)
    assert [len(samples) for samples in taken.values()] == [3, 3]
    assert asked.count("s") == 3 * (3 + 1)
    assert asked.count("l") == 4  # only the first round has a warm-up sample


def test_interleaving_no_kernels_gives_no_samples() -> None:
    assert interleave({}, 3, rng=RNG(0), warm=True) == {}


def test_python_garbage_collection_is_off_during_timing_samples() -> None:
    with undisturbed():
        assert not gc.isenabled()
    assert gc.isenabled()


class TimedBuffers(FakeBuffers):
    """Fake buffers whose content is the duration of a call in µs."""

    def __init__(self, time_us: float = 0.0) -> None:
        super().__init__({}, {"y": np.array([time_us])})

    def rewrite(self, source: Buffers) -> None:
        self.arrays["y"][...] = source.read("y")


class RingTimer:
    """A fake timer that makes one call on each buffer set. The noise differs from sample to sample."""

    def __init__(self, sets: Sequence[TimedBuffers], noise: Sequence[float]) -> None:
        self.calls, self.last, self._sets, self._noise = len(sets), len(sets) - 1, sets, cycle(noise)

    def sample(self) -> float:
        return float(np.mean([each.read("y") for each in self._sets])) * next(self._noise)


@pytest.mark.parametrize(
    ("noise", "rounds"), [([1.0], USUAL_ROUNDS), ([0.3, 1.0, 1.0, 1.0], MOST_ROUNDS)], ids=["quiet", "noisy"]
)
def test_overwrite_check_adds_rounds_until_its_ratio_is_conclusive(noise: list[float], rounds: int) -> None:
    sets = [TimedBuffers() for _ in range(3)]
    sources = {"answered": TimedBuffers(2 * ROUND_US), "poisoned": TimedBuffers(6 * ROUND_US)}
    seen: list[Buffers] = []
    undecided = partial(straddles, policy=Policy())
    now = ReferenceTimers(FakeSession()).now()
    found = overwrite_check(
        RingTimer(sets, noise), sets, sources, look=seen.extend, moment=now, budget_s=60.0, undecided=undecided
    )
    assert len(found.answered.samples_us) == len(found.poisoned.samples_us) == rounds
    assert found.answered.calls_per_sample == 3
    ratios = np.divide(found.poisoned.samples_us, found.answered.samples_us)
    assert set(ratios.round(6)) == ({3.0} if rounds == USUAL_ROUNDS else {3.0, 0.9})
    assert undecided(found) is (rounds == MOST_ROUNDS)
    assert seen == sets * (2 * rounds + 2), "each call is checked"


def test_overwrite_check_uses_one_buffer_set_per_call_within_limits() -> None:
    y = Argument(name="y", role="output", dtype="float32", shape=(1 << 20,))
    x = Argument(name="x", role="input", dtype="float32", shape=(1 << 20,))
    assert [ring_sets([x, y], calls, 64 << 20) for calls in (1, 5, 500)] == [2, 5, 7]
    assert ring_sets([], 500, 1 << 20) == 128
    assert [mixed_sets(held) for held in (0, 4096, 16 << 20, 1 << 30)] == [MIXED_SETS, MIXED_SETS, 4, 2]


def test_timing_contains_the_times_of_the_anchor_kernel_and_of_an_empty_call() -> None:
    timing = ReferenceTimers(FakeSession()).now().timing([3.0, 1.0], calls=7)
    assert (timing.anchor_us, timing.floor_us, timing.calls_per_sample, timing.median_us) == (20.0, 0.1, 7, 2.0)


def test_much_slower_baseline_is_omitted_with_the_reason() -> None:
    timers = {"fast": ScriptedTimer([4.0]), "incumbent": ScriptedTimer([6.0])}
    baselines = Baselines(timers={"flash": ScriptedTimer([79.0]), "naive": ScriptedTimer([81.0])})
    assert fitting_rounds(timers, baselines, Compare(series={}, rounds=100, baselines=True, budget_s=48.0)) == 100
    assert set(baselines.timers) == {"flash"}
    assert baselines.unavailable == {"naive": "left out: 81 µs, more than 20 times the 4 µs of the fastest candidate"}


def test_confirmation_times_only_baselines_that_may_be_the_fastest() -> None:
    timers = {"challenger": ScriptedTimer([4.0]), "incumbent": ScriptedTimer([6.0])}
    times_us = {"math": 15.1, "flash": 14.9, "library": 10.0}
    baselines = Baselines(timers={name: ScriptedTimer([time_us]) for name, time_us in times_us.items()})
    assert fitting_rounds(timers, baselines, Compare(series={}, rounds=100, baselines=True, budget_s=48.0)) == 100
    assert set(baselines.timers) == {"flash", "library"}
    assert baselines.unavailable == {"math": "left out: 15.1 µs, more than 1.5 times the 10 µs of the fastest baseline"}


def test_fastest_baseline_is_omitted_only_if_an_incumbent_is_compared() -> None:
    request = Compare(series={}, rounds=100, baselines=True, budget_s=48.0)
    timers = {"challenger": ScriptedTimer([4.0])}
    noisy = Baselines(timers={"flash": ScriptedTimer([60.0]), "naive": ScriptedTimer([900.0, 70.0, 70.0])})
    assert fitting_rounds(timers, noisy, request) == 100
    assert not noisy.unavailable
    slow = Baselines(timers={"naive": ScriptedTimer([400.0])})
    assert fitting_rounds(timers, slow, request) == 100
    assert not slow.unavailable
    slower = Baselines(timers={"naive": ScriptedTimer([2e6])})
    assert 5 < fitting_rounds(timers, slower, request) < 20, "a slow baseline reduces the number of rounds"
    assert not slower.unavailable
    assert fitting_rounds({**timers, "incumbent": ScriptedTimer([5.0])}, slower, request) == 100
    assert slower.unavailable == {"naive": "left out: 20 rounds of 4 s each do not fit into 48 s"}


def test_all_baselines_are_timed_if_there_is_no_challenger() -> None:
    baselines = Baselines(timers={"flash": ScriptedTimer([4.0]), "naive": ScriptedTimer([4000.0])})
    assert fitting_rounds({}, baselines, Compare(series={}, rounds=40, baselines=True, budget_s=48.0)) == 40
    assert set(baselines.timers) == {"flash", "naive"}


def test_slow_requested_baseline_is_timed_in_fewer_rounds() -> None:
    timers, baselines = {"challenger": ScriptedTimer([4.0])}, Baselines(timers={"library": ScriptedTimer([2e6])})
    request = Compare(series={}, rounds=100, baselines=True, only="library", budget_s=48.0)
    assert 1 < fitting_rounds(timers, baselines, request) < 100
    assert set(baselines.timers) == {"library"}
    assert not baselines.unavailable


def test_interleaved_rounds_end_once_there_are_enough_samples() -> None:
    timers = {"a": ScriptedTimer([ROUND_US]), "b": ScriptedTimer([ROUND_US])}
    taken = interleave(timers, 30, rng=RNG(0), warm=False, enough=lambda samples: len(samples["a"]) == 4)
    assert [len(samples) for samples in taken.values()] == [4, 4]


@pytest.mark.parametrize(("samples", "before"), [(40, 8), (2, 1), (1, 0)])
def test_promising_candidate_is_announced_once_after_a_fifth_of_the_samples(samples: int, before: int) -> None:
    asked: list[int] = []
    timer = ScriptedTimer([8.0])
    take(timer, samples, bars=Bars(shorten_us=9.0), promising=lambda: asked.append(len(timer.asked)))
    assert asked == [before]
    slow = take(ScriptedTimer([8.0]), 40, bars=Bars(shorten_us=7.0), promising=lambda: asked.append(-1))
    assert (asked, len(slow.samples_us)) == ([before], 9)
