"""Kernels that store outputs of earlier inputs are detected, because they are faster on repeated inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evo.promotion import Verdict, judge
from evo.promotion.policy import Policy
from evo.trial.results import ConfirmReport, OverwriteCheck, Repetition
from evo.trial.timing import Timing
from tests.unit.fake_session import FakeBuffers
from workers.measure.checks.repetition import (
    LEAST_ROUNDS,
    MOST_ROUNDS,
    repetition,
    separate_sets,
    series_sets,
    sets_of_gpu,
)
from workers.measure.timing import Moment

MOMENT = Moment(anchor_us=1.0, floor_us=0.0)


class NumberBuffers(FakeBuffers):
    """Buffers with one number as input and its double as expected output."""

    def __init__(self, x: float = 0.0) -> None:
        super().__init__({"x": np.array([x])}, {"y": np.array([np.nan])})

    def sibling(self) -> "NumberBuffers":
        return NumberBuffers()

    def rewrite(self, source: object) -> None:
        self.arrays["y"][0] = np.nan


class RingTimer:
    """A timer that calls a kernel once on each buffer set; `kernel` returns the time of a call in µs."""

    def __init__(self, sets: Sequence[NumberBuffers], kernel: Callable[[float], float]) -> None:
        self.calls, self.last, self._sets, self._kernel = len(sets), len(sets) - 1, sets, kernel

    def sample(self) -> float:
        return float(np.mean([self._kernel(float(each.arrays["x"][0])) for each in self._sets]))


class CachingKernel:
    """A kernel that stores the outputs of its latest `kept` inputs and is fast on those."""

    def __init__(self, kept: int) -> None:
        self._most, self._kept = kept, list[float]()

    def __call__(self, x: float) -> float:
        if x in self._kept:
            return 2.0
        self._kept = [x, *self._kept][: self._most]
        return 10.0


def drawn() -> Iterator[float]:
    yield from np.random.default_rng(0).standard_normal(100_000).tolist()


def found(kernel: Callable[[float], float], *, sets: int, budget_s: float = 60.0) -> Repetition:
    numbers, ring = drawn(), [NumberBuffers() for _ in range(sets)]
    return repetition(
        RingTimer(ring, kernel),
        RingTimer(ring[:1] * len(ring), kernel),
        ring,
        known={"x": np.array([1.0])},
        draw=lambda: {"x": np.array([next(numbers)])},
        moment=MOMENT,
        budget_s=budget_s,
    )


def judged(seen: Repetition, **policy: float) -> Verdict:
    alike = Timing(samples_us=(1.0,) * 20)
    report = ConfirmReport(
        challenger=alike,
        challenger_again=alike,
        incumbent=Timing(samples_us=(2.0,) * 20),
        overwrite_check=OverwriteCheck(answered=alike, poisoned=alike, repetition=seen),
    )
    return judge(report, Policy(**policy), 1, np.random.default_rng(0))  # type: ignore[arg-type]


def verdict_on(seen: Repetition, **policy: float) -> tuple[bool, str]:
    verdict = judged(seen, **policy)
    (rule,) = (each for each in verdict.rules if each.name == "inputs")
    assert verdict.promote is rule.passed
    assert (verdict.refuted is None) is rule.passed
    return rule.passed, rule.text


@pytest.mark.parametrize("sets", [1, 2, 16])
@pytest.mark.parametrize("kept", [1, 3, 1000])
def test_kernel_that_caches_outputs_fails_the_inputs_rule(kept: int, sets: int) -> None:
    seen = found(CachingKernel(kept), sets=sets)
    assert (seen.elements, len(seen.new.samples_us)) == (1, MOST_ROUNDS)
    passed, text = verdict_on(replace(seen, elements=1 << 20))
    assert not passed
    assert text.startswith("A call on new inputs takes 5 times as long as a call on inputs that were timed before")


@pytest.mark.parametrize("sets", [1, 16])
def test_kernel_that_computes_every_call_passes_the_inputs_rule(sets: int) -> None:
    seen = found(lambda x: 10.0, sets=sets)
    passed, _ = verdict_on(replace(seen, elements=1 << 20))
    assert passed


@pytest.mark.parametrize(("elements", "passed"), [(16_384, True), (16_385, False)])
def test_inputs_rule_does_not_apply_to_problems_of_few_elements(elements: int, passed: bool) -> None:
    new, known = Timing(samples_us=(3.0,) * 12), Timing(samples_us=(1.0,) * 12)
    assert verdict_on(Repetition(new=new, known=known, elements=elements))[0] is passed


def test_policy_sets_the_maximum_time_ratio_of_new_to_known_inputs() -> None:
    new, known = Timing(samples_us=(3.0,) * 12), Timing(samples_us=(1.0,) * 12)
    seen = Repetition(new=new, known=known, elements=1 << 20)
    assert verdict_on(seen, max_repeat_ratio=3.5)[0]
    assert not verdict_on(seen, few_elements=1 << 20, max_repeat_ratio_of_few=2.5)[0]


def test_policy_sets_the_ratio_at_which_unsteady_samples_are_conclusive() -> None:
    new, known = Timing(samples_us=(2.2, 2.8) * 12), Timing(samples_us=(1.0,) * 24)
    seen = Repetition(new=new, known=known, elements=1 << 20)
    assert new.unsteady
    open_verdict = judged(seen)
    assert (open_verdict.promote, open_verdict.refuted) == (False, None)
    passed, text = verdict_on(seen, noisy_repeat_factor=1.2)
    assert not passed and text.startswith("A call on new inputs takes")


def test_every_buffer_set_is_filled_from_a_separate_array() -> None:
    written = list[int]()

    class Noting(NumberBuffers):
        def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
            written.append(id(inputs["x"]))
            super().renew(inputs)

    ring, numbers, made = [Noting(), Noting()], drawn(), list[dict[str, NDArray[Any]]]()

    def draw() -> dict[str, NDArray[Any]]:
        made.append({"x": np.array([next(numbers)])})
        return made[-1]

    turn = RingTimer(ring, lambda x: 1.0)
    repetition(turn, turn, ring, known={"x": np.array([1.0])}, draw=draw, moment=MOMENT, budget_s=0.0)
    fills = [written[index : index + 4] for index in range(0, len(written), 4)]
    assert all(len(set(fill)) == 4 for fill in fills), "warm-up and timed calls fill two sets each"


def test_repetition_check_at_its_time_limit_takes_the_minimum_number_of_rounds() -> None:
    assert len(found(lambda x: 1.0, sets=2, budget_s=0.0).known.samples_us) == LEAST_ROUNDS


BUSY = Timing(samples_us=(1.0, 5.0, 9.0) * 4)
STEADY = Timing(samples_us=(1.0,) * 12)


@pytest.mark.parametrize(
    ("new", "known", "passed", "conclusive"),
    [
        pytest.param(Timing(samples_us=(5.0,) * 12), STEADY, False, True, id="clearly slower"),
        pytest.param(BUSY, STEADY, False, False, id="interval contains the limit"),
        pytest.param(Timing(samples_us=(2.0, 2.3, 2.8) * 4), STEADY, False, False, id="slower on a busy machine"),
        pytest.param(Timing(samples_us=(4.0, 5.0, 6.0) * 4), STEADY, False, True, id="slower by more than the noise"),
        pytest.param(Timing(samples_us=(1.0, 1.2, 3.0) * 4), STEADY, True, True, id="noisy but within the limit"),
    ],
)
def test_busy_machine_leaves_the_inputs_rule_undecided(
    new: Timing, known: Timing, passed: bool, conclusive: bool
) -> None:
    seen = Repetition(new=new, known=known, elements=1 << 20)
    (rule,) = (each for each in judged(seen).rules if each.name == "inputs")
    assert (rule.passed, rule.conclusive) == (passed, conclusive)
    assert ("Search again while fewer other programs run" in rule.text) is not conclusive


@pytest.mark.parametrize(
    ("bytes_held", "sets"), [(4_000, 16), (1 << 18, 16), (1 << 20, 4), (1_440_000, 2), (1 << 30, 2)]
)
def test_separate_buffer_sets_fit_in_a_small_part_of_the_last_level_cache(bytes_held: int, sets: int) -> None:
    assert separate_sets(bytes_held, near_bytes=1 << 19, last_bytes=1 << 25) == sets


@pytest.mark.parametrize(("call_us", "sets"), [(0.1, 64), (2.0, 50), (6.25, 16), (1e4, 16)])
def test_shorter_calls_get_more_buffer_sets_for_new_inputs(call_us: float, sets: int) -> None:
    assert series_sets(call_us) == sets


@pytest.mark.parametrize(("bytes_held", "sets"), [(1 << 10, 16), (3 << 19, 10), (2 << 20, 16), (1 << 30, 16)])
def test_gpu_buffer_sets_fit_in_the_cache_unless_they_would_be_too_few(bytes_held: int, sets: int) -> None:
    assert sets_of_gpu(bytes_held, cache_bytes=30 << 20) == sets
