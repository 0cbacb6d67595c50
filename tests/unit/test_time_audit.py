"""Times claimed by a kernel process are compared with the operating system's accounting."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from workers.backends.cpu.process.audit import DISAGREEMENT_OF_TURNS, LEAST_BATCHES, MOST_DISAGREEMENT, TimeAudit
from workers.backends.cpu.process.batch import Batch, Pause, joined
from workers.backends.cpu.process.pace import SharedPace

IDLE = [Batch(calls=1000, claimed_ns=2_000, wall_ns=17_000, cpu_ns=12_000) for _ in range(9)]
"""Batches whose request needs 10 µs of processor time and is answered after 15 µs, apart from the calls."""


def batch(*, claimed_us: float, cpu_us: float | None = None, wall_us: float | None = None) -> Batch:
    """Return a batch of 100 calls. By default, its request takes as long as those of `IDLE`."""
    cpu = claimed_us + 10 if cpu_us is None else cpu_us
    wall = claimed_us + 15 if wall_us is None else wall_us
    claimed_ns, wall_ns, cpu_ns = (round(1000 * each) for each in (claimed_us, wall, cpu))
    return Batch(calls=100, claimed_ns=claimed_ns, wall_ns=wall_ns, cpu_ns=cpu_ns)


def audit(samples: Sequence[Batch] = (), threads: int = 1, pauses: Sequence[Pause] = ()) -> TimeAudit:
    return TimeAudit(threads=threads, idle=IDLE, samples=list(samples), pauses=list(pauses))


HONEST = batch(claimed_us=516.3)
COLD = batch(claimed_us=516.3, cpu_us=536.1)
PREEMPTED = batch(claimed_us=3_000, cpu_us=520, wall_us=3_015)
LATE = batch(claimed_us=516.3, wall_us=8_000)
SECOND_CORE = batch(claimed_us=516.3, cpu_us=1.35 * 516.3)
SLOW_CLOCK = batch(claimed_us=0.7 * 516.3, cpu_us=526.3, wall_us=531.3)
SLEEPS = batch(claimed_us=50, cpu_us=60, wall_us=1_000)


@pytest.mark.parametrize("each", [HONEST, COLD, PREEMPTED])
def test_timing_batches_of_a_consistent_kernel_are_accepted(each: Batch) -> None:
    assert audit([each] * 40).contradiction() is None
    assert not audit([]).worth_repeating(each)


@pytest.mark.parametrize("each", [SECOND_CORE, SLOW_CLOCK])
def test_kernel_with_more_processor_time_than_claimed_time_is_refused(each: Batch) -> None:
    assert audit().contradicts(each)
    assert "more processor time" in (audit([each] * LEAST_BATCHES).contradiction() or "")


@pytest.mark.parametrize(
    ("each", "low_us", "high_us"),
    [
        pytest.param(HONEST, 400.0, 516.3, id="honest"),
        pytest.param(batch(claimed_us=40, cpu_us=1_040), 900.0, 1_040.0, id="claims too little"),
        pytest.param(batch(claimed_us=1, cpu_us=30), 0.0, 0.0, id="too short for a statement"),
    ],
)
def test_counted_processor_time_gives_a_minimum_duration_of_the_calls(
    each: Batch, low_us: float, high_us: float
) -> None:
    assert low_us <= audit().least_ns(each) * 1e-3 <= high_us
    assert TimeAudit().least_ns(each) == 0.0


def test_processor_time_of_a_second_core_is_accepted_with_two_threads() -> None:
    assert audit([SECOND_CORE] * 40, 2).contradiction() is None


def test_processor_time_of_pool_threads_that_spin_before_a_late_reply_is_accepted() -> None:
    spinning = batch(claimed_us=752, cpu_us=3_835, wall_us=3_300)
    assert not audit(threads=2).contradicts(spinning)
    assert audit().contradicts(spinning)
    assert audit(threads=2).contradicts(batch(claimed_us=752, cpu_us=3_835, wall_us=1_000))


def test_up_to_one_batch_in_ten_may_use_more_processor_time_than_claimed() -> None:
    assert audit([SECOND_CORE] * 4 + [HONEST] * 36).contradiction() is None
    assert audit([SECOND_CORE] * 5 + [HONEST] * 36).contradiction() is not None


def test_kernel_is_accepted_if_fewer_batches_than_the_minimum_use_more_processor_time_than_claimed() -> None:
    assert audit([SECOND_CORE] * (LEAST_BATCHES - 1) + [HONEST] * 7).contradiction() is None
    assert audit([SECOND_CORE] * LEAST_BATCHES + [HONEST] * 7).contradiction() is not None


def test_kernel_is_refused_if_all_batches_claim_less_than_the_elapsed_time() -> None:
    assert audit().overdue(SLEEPS)
    waits_for_a_core = replace(SLEEPS, waiting_ns=SLEEPS.wall_ns - SLEEPS.claimed_ns)
    assert not audit().overdue(waits_for_a_core)
    assert "but 1000 µs passed" in (audit([SLEEPS] * LEAST_BATCHES).contradiction() or "")


def test_timing_batches_with_late_replies_are_accepted_if_one_reply_is_on_time() -> None:
    assert audit([LATE, HONEST, LATE, LATE]).contradiction() is None


def test_claimed_time_outside_the_observed_interval_is_refused() -> None:
    outside = Batch(calls=1, claimed_ns=-1, wall_ns=1_000_000, cpu_ns=0)
    assert "outside the interval" in (audit([HONEST] * 40 + [outside]).contradiction() or "")


@pytest.mark.parametrize("each", [SECOND_CORE, SLOW_CLOCK])
def test_timing_batches_with_contradictory_times_are_repeated_up_to_a_maximum_number(each: Batch) -> None:
    assert audit([HONEST] * 40).worth_repeating(each)
    assert audit([each] * (LEAST_BATCHES - 1)).worth_repeating(each)
    assert not audit([each] * LEAST_BATCHES).worth_repeating(each)


def test_timing_batches_with_late_replies_are_repeated_until_one_reply_is_on_time() -> None:
    assert audit([]).worth_repeating(LATE)
    assert audit([LATE]).worth_repeating(LATE)
    assert not audit([LATE, HONEST]).worth_repeating(LATE)
    assert not audit([LATE] * LEAST_BATCHES).worth_repeating(LATE)


def test_calls_on_separate_buffers_have_a_larger_tolerance_for_processor_time() -> None:
    dear, hidden = batch(claimed_us=516.3, cpu_us=600.0), batch(claimed_us=516.3, cpu_us=1.25 * 516.3)
    assert audit().overused([dear] * 9, MOST_DISAGREEMENT, 10) is not None
    assert audit().overused([dear] * 9, DISAGREEMENT_OF_TURNS, 10) is None
    assert audit().overused([hidden] * 9, DISAGREEMENT_OF_TURNS, 10) is not None


def test_up_to_half_of_the_batches_on_separate_buffers_may_use_more_processor_time_than_claimed() -> None:
    judged = audit()
    judged.turns = [SECOND_CORE] * 31 + [HONEST] * 69
    assert judged.contradiction() is None
    judged.turns = [SECOND_CORE] * 51 + [HONEST] * 49
    assert "more processor time" in (judged.contradiction() or "")


def test_short_timing_batches_are_joined_before_they_are_checked() -> None:
    honest, second_core = batch(claimed_us=80.0), batch(claimed_us=80.0, cpu_us=210.0)
    for short, refused in ((honest, False), (second_core, True)):
        long = joined(joined(short, short), short)
        assert (long.calls, long.requests, long.claimed_ns) == (300, 3, 240_000)
        assert (audit().overused([long] * LEAST_BATCHES, MOST_DISAGREEMENT, 10) is not None) is refused


def test_joined_timing_batches_are_not_refused_for_their_elapsed_time() -> None:
    assert audit().overused([joined(SLEEPS, SLEEPS)] * LEAST_BATCHES, MOST_DISAGREEMENT, 10) is None


def test_joining_timing_batches_preserves_an_invalid_time() -> None:
    outside = Batch(calls=1, claimed_ns=-1, wall_ns=1_000, cpu_ns=0)
    assert joined(HONEST, outside).claimed_ns == joined(outside, HONEST).claimed_ns == -1


BUSY, RESTS, SHORT = (
    Pause(wall_ns=wall_ns, cpu_ns=cpu_ns)
    for wall_ns, cpu_ns in ((5_000_000, 300_000), (5_000_000, 15_000), (100_000, 90_000))
)


@pytest.mark.parametrize(
    ("pauses", "threads", "refused"),
    [
        ([BUSY] * LEAST_BATCHES, 1, True),
        ([BUSY] * (LEAST_BATCHES - 1), 1, False),
        ([BUSY] * (LEAST_BATCHES - 1) + [RESTS] * 7, 1, False),
        ([BUSY] * LEAST_BATCHES + [RESTS] * 5, 1, True),
        ([RESTS] * 40, 1, False),
        ([SHORT] * 40, 1, False),
        ([BUSY] * 20 + [RESTS] * 36, 1, True),
        ([BUSY] * 18 + [RESTS] * 36, 1, False),
        ([BUSY] * 40, 2, False),
    ],
)
def test_kernel_that_computes_in_long_pauses_between_batches_is_refused(
    pauses: list[Pause], threads: int, refused: bool
) -> None:
    reason = audit(threads=threads, pauses=pauses).works_in_pauses()
    assert (reason is not None) == refused
    assert reason is None or "300 µs each time" in reason


def test_timing_batch_pauses_for_an_input_change_and_ends_after_one_more_call() -> None:
    pace, changes = SharedPace(), list[str]()
    pace.begin()
    words = pace.segment.bytes_of(pace.segment.regions[0]).data.cast("Q")
    words[0], words[17] = 5, 1  # the loop waits after five calls
    assert pace.change_between(lambda: changes.append("made"), lambda: True) == 5
    assert (changes, words[16], pace.halted) == (["made"], 3, True)


def test_input_change_between_calls_is_omitted_if_the_timing_batch_has_ended() -> None:
    pace, changes = SharedPace(), list[str]()
    pace.begin()
    assert pace.change_between(lambda: changes.append("made"), lambda: False) == 0
    assert (changes, pace.halted) == ([], False)
