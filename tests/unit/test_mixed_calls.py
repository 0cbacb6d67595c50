"""Calls with changing inputs detect kernels that reuse earlier outputs."""

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import pytest

from tests.unit.fake_session import FakeBuffers
from workers.backends import Buffers
from workers.measure.checks.contents import Contents
from workers.measure.checks.overwrite import LEAST_MIXED_CALLS, judge_mixed

MIXED_CALLS = 64


class NumberBuffers(FakeBuffers):
    """Fake buffers with one number as input and its double as the expected output."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__({"x": np.array([value])}, {"y": np.array([np.nan])})

    def sibling(self) -> "NumberBuffers":
        return NumberBuffers()

    def refill(self, source: Buffers) -> None:
        self.renew({"x": source.read("x")})

    def rewrite(self, source: Buffers) -> None:
        self.arrays["y"][...] = source.read("y")


class RingTimer:
    """A timer that calls a kernel once on each buffer set."""

    def __init__(self, sets: Sequence[NumberBuffers], kernel: Callable[[float], float]) -> None:
        self.calls, self.last, self._sets, self._kernel = len(sets), len(sets) - 1, sets, kernel

    def sample(self) -> float:
        for each in self._sets:
            each.arrays["y"][0] = self._kernel(float(each.arrays["x"][0]))
        return 1.0


class StaleKernel:
    """A kernel that returns its previous output on the calls for which `skips` is true."""

    def __init__(self, skips: Callable[[int], bool]) -> None:
        self._skips, self._calls, self._kept = skips, 0, 0.0

    def __call__(self, x: float) -> float:
        self._calls += 1
        if not self._skips(self._calls):
            self._kept = 2 * x
        return self._kept


def wrong(kernel: Callable[[float], float], *, seed: int, sets: int, budget_s: float = 60.0) -> tuple[int, int]:
    """Return the number of wrong calls and the number of checked calls."""
    rng = np.random.default_rng(seed)
    contents = Contents([NumberBuffers(value) for value in (1.0, 2.0, 3.0)], rng, WeakKeyDictionary())
    ring, faults = [NumberBuffers(1.0) for _ in range(sets)], list[bool]()

    def look(sets: Sequence[Buffers]) -> None:
        faults.extend(bool(each.read("y") != 2 * each.read("x")) for each in sets)

    judge_mixed(RingTimer(ring, kernel), ring, contents, look=look, calls=MIXED_CALLS, budget_s=budget_s)
    return sum(faults), len(faults)


@pytest.mark.parametrize("sets", [2, 3, 10, 128])
@pytest.mark.parametrize("every", [2, 3, 5, 16])
def test_kernel_that_skips_every_kth_call_is_detected_at_any_offset(every: int, sets: int) -> None:
    for offset in range(every):

        def skips(call: int, offset: int = offset) -> bool:
            return (call + offset) % every == 0

        faults, judged = wrong(StaleKernel(skips), seed=offset, sets=sets)
        assert judged >= MIXED_CALLS
        assert faults >= judged // every - 1 > 0


def test_kernel_that_skips_a_fifth_of_calls_is_accepted_at_most_once_in_a_million() -> None:
    assert 0.8**MIXED_CALLS < 1e-6


def test_kernel_that_computes_every_call_is_accepted_with_changing_inputs() -> None:
    assert wrong(lambda x: 2 * x, seed=1, sets=7) == (0, 70)


def test_calls_with_changing_inputs_end_at_their_minimum_number_if_the_time_is_used_up() -> None:
    assert wrong(lambda x: 2 * x, seed=1, sets=2, budget_s=0.0) == (0, LEAST_MIXED_CALLS)


def test_mixing_a_single_set_of_inputs_leaves_the_buffers_unchanged() -> None:
    contents = Contents([NumberBuffers(1.0)], np.random.default_rng(1), WeakKeyDictionary())
    ring = [NumberBuffers(1.0), NumberBuffers(1.0)]
    contents.mix(ring)
    assert [each.read("x")[0] for each in ring] == [1.0, 1.0]
