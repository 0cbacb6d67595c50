"""A kernel that is slower on separate buffers is refused; on a busy device, the check is undecided."""

from collections.abc import Iterator

import numpy as np
import pytest

from evo.promotion.policy import Policy
from evo.trial.results import OverwriteCheck
from evo.trial.timing import Timing
from workers.measure.checks.suspicion import LOOKS, Suspicion, disagreement, repeat_check, shortened, unsteady
from workers.measure.verify import WrongAnswerError


class ScriptedCheck:
    """A check with prepared results: the given ratios of the time on separate buffers to the time on one buffer."""

    def __init__(self, ratios: Iterator[float], spread: float) -> None:
        self.ratios, self.spread, self.rng = ratios, spread, np.random.default_rng(1)
        self.looks = 0

    def check(self) -> OverwriteCheck:
        self.looks += 1
        ratio = next(self.ratios)
        fast = 10.0 * self.rng.lognormal(0, self.spread, 24)
        slow = ratio * fast * self.rng.lognormal(0, 0.01, 24)
        return OverwriteCheck(
            answered=Timing(samples_us=tuple(slow)),
            poisoned=Timing(samples_us=tuple(slow)),
            repeated=Timing(samples_us=tuple(fast)),
        )

    def judged(self) -> OverwriteCheck:
        return repeat_check(self.check, suspicion_of, equal_calls)


def equal_calls(found: OverwriteCheck) -> list[Timing | None]:
    return [found.repeated, found.poisoned]


def suspicion_of(found: OverwriteCheck) -> Suspicion | None:
    policy = Policy()
    return disagreement(found.poisoned, found.repeated, policy.max_ring_ratio, policy.skip_confidence)


def test_kernel_that_is_slower_on_separate_buffers_is_refused_on_a_steady_device() -> None:
    check = ScriptedCheck(iter([1.5] * LOOKS), 0.01)
    with pytest.raises(WrongAnswerError, match=r"1\.[45]\d* times as long, and at most 1\.25 is allowed"):
        check.judged()
    assert check.looks == LOOKS


def test_kernel_is_accepted_if_one_check_shows_equal_speed_on_separate_buffers() -> None:
    check = ScriptedCheck(iter([1.5, 1.0]), 0.01)
    assert not check.judged().unclear
    assert check.looks == 2


def test_check_of_separate_buffers_is_undecided_on_a_busy_device() -> None:
    found = ScriptedCheck(iter([1.5] * LOOKS), 0.3).judged()
    assert "at most 1.25 is allowed" in found.unclear


@pytest.mark.parametrize(("spread", "expected"), [(0.01, False), (0.3, True)])
def test_timing_samples_with_a_large_spread_count_as_unsteady(spread: float, expected: bool) -> None:
    samples = Timing(samples_us=tuple(np.random.default_rng(0).lognormal(0, spread, 24)))
    assert unsteady([None, samples]) is expected


@pytest.mark.parametrize(
    ("speedup", "refused"), [(0.5, False), (1.0, False), (1.2, False), (1.35, True), (500.0, True)]
)
def test_kernel_much_faster_in_timed_rounds_than_in_short_batches_is_refused(speedup: float, refused: bool) -> None:
    rng = np.random.default_rng(2)
    turn = Timing(samples_us=tuple(10.0 * rng.lognormal(0, 0.01, 24)))
    timed = Timing(samples_us=tuple(10.0 / speedup * rng.lognormal(0, 0.01, 24)))
    suspicion = shortened(turn, timed, 1.25, 0.999)
    assert (suspicion is not None) is refused
    if suspicion is not None:
        assert suspicion.proved
        assert "in the timed rounds" in suspicion.text


def test_check_for_kernels_faster_in_timed_rounds_is_undecided_with_few_noisy_samples() -> None:
    short, timed = Timing(samples_us=(9.0, 15.0, 16.0, 15.0, 17.0, 15.0)), Timing(samples_us=(10.0,) * 6)
    suspicion = shortened(short, timed, 1.25, 0.999)
    assert suspicion is not None
    assert not suspicion.proved
    found = ScriptedCheck(iter([1.0] * LOOKS), 0.01).check()
    assert repeat_check(lambda: found, lambda _: suspicion, equal_calls).unclear == suspicion.text


def test_kernel_faster_in_timed_than_in_short_batches_is_detected_despite_shared_noise() -> None:
    noise = 10.0 * np.random.default_rng(3).lognormal(0, 1.0, 24)
    suspicion = shortened(Timing(samples_us=tuple(noise)), Timing(samples_us=tuple(noise / 2.0)), 1.25, 0.999)
    assert suspicion is not None
    assert suspicion.proved
