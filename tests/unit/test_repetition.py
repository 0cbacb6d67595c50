"""Kernels that store outputs of earlier inputs are detected, because they are faster on repeated inputs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evo.promotion import Verdict, judge
from evo.promotion.policy import Policy
from evo.trial.results import Changing, ConfirmReport, OverwriteCheck, Repeat, Repetition
from evo.trial.timing import Timing
from tests.unit.fake_session import FakeBuffers
from workers.measure.checks.repetition import (
    MOST_ROUNDS,
    SUSPICIOUS_ROUNDS,
    Inputs,
    repetition,
    separate_sets,
    series_sets,
    sets_of_gpu,
)
from workers.measure.checks.suspicion import LOOKS, Suspicion, recognition, repeat_check
from workers.measure.timing import Moment
from workers.measure.verify import WrongAnswerError

BUSY = Timing(samples_us=(1.0, 5.0, 9.0) * 4)
STEADY = Timing(samples_us=(1.0,) * 12)
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


def new_inputs(inputs: Sequence[dict[str, NDArray[Any]]]) -> Inputs:
    return Inputs(inputs=inputs, verify=lambda _: None)


def compared(
    ring: Sequence[NumberBuffers],
    kernel: Callable[[float], float],
    draw: Callable[[int, int], Inputs],
    **changed: Any,
) -> Repetition:
    given = {
        "known": {"x": np.array([1.0])},
        "look": lambda _: None,
        "rng": np.random.default_rng(2),
        "moment": MOMENT,
        "budget_s": 0.0,
        "least": 2,
        "suspicious": lambda new_us, known_us: new_us > 1.5 * known_us,
    }
    turn, again = RingTimer(ring, kernel), RingTimer(list(ring[:1]) * len(ring), kernel)
    return repetition(turn, again, ring, draw=draw, **{**given, **changed})


def found(kernel: Callable[[float], float], *, sets: int, budget_s: float = 60.0) -> Repetition:
    numbers, ring = drawn(), [NumberBuffers() for _ in range(sets)]

    def draw(count: int, _: int) -> Inputs:
        return new_inputs([{"x": np.array([next(numbers)])} for _ in range(count)])

    return compared(ring, kernel, draw, budget_s=budget_s)


@pytest.mark.parametrize(("share", "refuted"), [(0.1, False), (0.4, True), (0.9, True)])
def test_kernel_that_uses_stored_outputs_in_some_batches_fails_the_inputs_rule(share: float, refuted: bool) -> None:
    rng = np.random.default_rng(5)
    known = Timing(samples_us=tuple(np.where(rng.random(MOST_ROUNDS) < share, 30.0, 100.0).tolist()))
    verdict = judged(Repetition(new=Timing(samples_us=(100.0,) * MOST_ROUNDS), known=known, elements=1 << 20))
    assert not verdict.promote
    assert (verdict.refuted is not None) is refuted


@pytest.mark.parametrize("busy", [0.3, 0.5, 0.8, 0.95])
def test_samples_that_other_programs_disturb_rarely_refute_an_honest_kernel(busy: float) -> None:
    """Each sample is disturbed with the probability `busy`, as on a GPU that runs the kernels of several processes."""
    rng = np.random.default_rng(7)

    def times_us(_: float) -> float:
        return 100.0 + rng.exponential(200.0) if rng.random() < busy else 5.0

    seen = [replace(found(times_us, sets=1, budget_s=0.0), elements=1 << 20) for _ in range(400)]
    refuted = [each for each in seen if judged(each).refuted is not None]
    assert len(refuted) <= 2, "a kernel may be refuted in 1 of 1000 processes"


def test_kernel_that_stores_outputs_in_one_later_process_fails_the_inputs_rule() -> None:
    fair = Repetition(new=STEADY, known=STEADY, elements=1 << 20)
    report = report_on(fair)
    repeats = [Repeat(challenger=STEADY, other=STEADY, repetition=fair) for _ in range(4)]
    repeats[2] = replace(repeats[2], repetition=replace(fair, new=Timing(samples_us=(4.0,) * 12)))
    verdict = judge(replace(report, repeats=tuple(repeats)), Policy(), 1, np.random.default_rng(0))
    (rule,) = (each for each in verdict.rules if each.name == "inputs")
    assert not rule.passed and rule.conclusive
    assert rule.text.startswith("In process 4, a call on new inputs takes 4 times as long")


@pytest.mark.parametrize(("different_us", "passed"), [(11.0, True), (16.0, False)])
def test_calls_whose_inputs_change_are_compared_by_medians(different_us: float, passed: bool) -> None:
    fair = Repetition(new=STEADY, known=STEADY, elements=1 << 20)
    same = Timing(samples_us=(*(10.0,) * 19, 5.0))  # one sample with few writes
    changing = Changing(different=Timing(samples_us=(different_us,) * 20), same=same)
    report = report_on(fair)
    check = report.overwrite_check
    assert check is not None
    report = replace(report, overwrite_check=replace(check, changing=changing))
    (rule,) = (each for each in judge(report, Policy(), 1, np.random.default_rng(0)).rules if each.name == "inputs")
    assert rule.passed is passed
    assert rule.text.startswith("A call whose inputs change between consecutive calls takes 1.6") is not passed


@pytest.mark.parametrize("process", [1, 3])
def test_calls_slow_on_new_inputs_for_an_unclear_reason_leave_the_inputs_rule_undecided(process: int) -> None:
    fair = Repetition(new=STEADY, known=STEADY, elements=1 << 20)
    unclear = replace(fair, unclear="a call takes 1 µs in the timed rounds, but 3 µs on new inputs")
    calls = [unclear if number == process else fair for number in range(1, 6)]
    report = report_on(calls[0])
    repeats = tuple(Repeat(challenger=STEADY, other=STEADY, repetition=each) for each in calls[1:])
    verdict = judge(replace(report, repeats=repeats), Policy(), 1, np.random.default_rng(0))
    (rule,) = (each for each in verdict.rules if each.name == "inputs")
    assert (rule.passed, rule.conclusive) == (False, False)
    assert rule.text.startswith(f"In process {process}, calls may do less work if inputs repeat: a call takes 1 µs")
    assert (verdict.refuted, verdict.doubted) == (None, rule.text)


@pytest.mark.parametrize(("new_us", "certain"), [(1.6, None), (2.2, False), (7.9, False), (8.1, True)])
def test_fastest_call_on_new_inputs_is_compared_with_the_timed_rounds(new_us: float, certain: bool | None) -> None:
    new = Timing(samples_us=(new_us, 50.0, 9.0))
    found = recognition(Repetition(new=new, known=new, elements=1 << 20), STEADY, 2.0, 2.0)
    assert (None if found is None else found.certain) is certain
    if found is not None:
        assert f"1 µs in the timed rounds, but {new_us:g} µs on new inputs" in found.text
        assert not found.proved


def test_kernel_that_recognises_timed_inputs_is_refused_after_several_checks() -> None:
    looks = list[Repetition]()

    def look(new_us: float) -> Repetition:
        new = Timing(samples_us=(new_us,) * 6)
        looks.append(Repetition(new=new, known=STEADY, same=STEADY, elements=1 << 20))
        return looks[-1]

    def suspicion_of(found: Repetition) -> Suspicion | None:
        return recognition(found, STEADY, 2.0, 2.0)

    def equal(found: Repetition) -> list[Timing | None]:
        return [BUSY, found.same]

    with pytest.raises(WrongAnswerError, match="9 times as long"):
        repeat_check(lambda: look(9.0), suspicion_of, equal)
    assert len(looks) == LOOKS
    assert "3 times as long" in repeat_check(lambda: look(3.0), suspicion_of, equal).unclear


def judged(seen: Repetition, **policy: float) -> Verdict:
    return judge(report_on(seen), Policy(**policy), 1, np.random.default_rng(0))  # type: ignore[arg-type]


def report_on(seen: Repetition) -> ConfirmReport:
    alike = Timing(samples_us=(1.0,) * 20)
    return ConfirmReport(
        challenger=alike,
        challenger_again=alike,
        incumbent=Timing(samples_us=(2.0,) * 20),
        overwrite_check=OverwriteCheck(answered=alike, poisoned=alike, repetition=seen),
    )


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
    assert text.startswith(
        "In process 1, a call on new inputs takes 5 times as long as a call on inputs that were timed"
    )


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
    assert not passed and text.startswith("In process 1, a call on new inputs takes")


def test_every_buffer_set_is_filled_from_a_separate_array() -> None:
    written = list[int]()

    class Noting(NumberBuffers):
        def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
            written.append(id(inputs["x"]))
            super().renew(inputs)

    ring, numbers, made = [Noting(), Noting()], drawn(), list[dict[str, NDArray[Any]]]()

    def draw(count: int, _: int) -> Inputs:
        made.extend({"x": np.array([next(numbers)])} for _ in range(count))
        return new_inputs(made[-count:])

    compared(ring, lambda x: 1.0, draw, least=6)
    fills = [written[index : index + 4] for index in range(0, len(written), 4)]
    assert all(len(set(fill)) == 4 for fill in fills), "warm-up and timed calls fill two sets each"


def test_check_on_new_inputs_takes_rounds_beyond_its_time_only_if_new_inputs_are_slow() -> None:
    assert len(found(lambda x: 1.0, sets=2, budget_s=0.0).known.samples_us) == 2
    assert len(found(CachingKernel(1000), sets=2, budget_s=0.0).known.samples_us) == SUSPICIOUS_ROUNDS
    times_us = chain([5.0] * 8, repeat(1.0))  # only the first two sets of calls are disturbed
    assert 2 < len(found(lambda x: next(times_us), sets=1, budget_s=0.0).known.samples_us) < SUSPICIOUS_ROUNDS


@pytest.mark.parametrize(
    ("new", "known", "passed", "conclusive"),
    [
        pytest.param(Timing(samples_us=(5.0,) * 12), STEADY, False, True, id="clearly slower"),
        pytest.param(BUSY, STEADY, True, True, id="fastest samples are equal on a busy machine"),
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
    assert ("search again while the machine is idle" in rule.text) is not conclusive


def test_outputs_of_one_random_call_are_verified_after_each_sample() -> None:
    ring, numbers = [NumberBuffers() for _ in range(4)], drawn()
    seen = list[tuple[str, int]]()

    def draw(count: int, place: int) -> Inputs:
        inputs = [{"x": np.array([next(numbers)])} for _ in range(count)]

        def verify(buffers: Any) -> None:
            assert buffers is ring[place]
            assert buffers.arrays["x"] == inputs[place]["x"]
            seen.append(("new", place))

        return Inputs(inputs=inputs, verify=verify)

    def look(buffers: Any) -> None:
        assert buffers.arrays["x"] == 1.0
        seen.append(("known", ring.index(buffers)))

    compared(ring, lambda x: 1.0, draw, look=look, least=20)
    assert [kind for kind, _ in seen[:6]] == ["known", "known", "new", "new", "known", "known"]
    for kind in ("known", "new"):
        assert {place for each, place in seen if each == kind} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("bytes_held", "sets"), [(4_000, 16), (1 << 18, 16), (1 << 20, 4), (1_440_000, 2), (1 << 30, 2)]
)
def test_separate_buffer_sets_fit_in_a_small_part_of_the_last_level_cache(bytes_held: int, sets: int) -> None:
    assert separate_sets(bytes_held, near_bytes=1 << 19, last_bytes=1 << 25) == sets


@pytest.mark.parametrize(("call_us", "sets"), [(0.1, 64), (2.0, 50), (6.25, 16), (400.0, 5), (1e4, 2)])
def test_shorter_calls_get_more_buffer_sets_for_new_inputs(call_us: float, sets: int) -> None:
    assert series_sets(call_us) == sets


@pytest.mark.parametrize(("bytes_held", "sets"), [(1 << 10, 16), (3 << 19, 10), (2 << 20, 16), (1 << 30, 16)])
def test_gpu_buffer_sets_fit_in_the_cache_unless_they_would_be_too_few(bytes_held: int, sets: int) -> None:
    assert sets_of_gpu(bytes_held, cache_bytes=30 << 20) == sets
