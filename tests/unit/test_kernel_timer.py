"""Samples with impossible times are repeated with more calls, which distinguishes slow requests from a wrong clock."""

import time
from typing import Any, cast

import numpy as np
import pytest

from workers.backends.cpu.kernel_process import KernelProcess
from workers.backends.cpu.process.audit import TimeAudit
from workers.backends.cpu.process.batch import Batch
from workers.backends.cpu.process.leaks import MemoryGrowth
from workers.backends.cpu.process.messages import MOST_ORDERS, Table
from workers.backends.cpu.timers import MINIMUM_SAMPLE_S, KernelTimer, SetOrders, Visits, calibrated

IDLE = [Batch(calls=1000, claimed_ns=2_000, wall_ns=17_000, cpu_ns=12_000) for _ in range(9)]


class Process:
    """A fake kernel process whose calls take 10 µs each.

    Args:
        request_us: processor time of a request apart from the calls.
        factor: processor time of a call relative to the claimed time.
        every: one in `every` requests takes `request_us`; the others take no extra time.
        restored: share of a call in which arguments are restored.
    """

    def __init__(self, request_us: float, factor: float = 1.0, *, every: int = 1, restored: float = 0.0) -> None:
        self.restored = restored
        self.audit, self.growth = TimeAudit(idle=IDLE), MemoryGrowth()
        self.populated: list[list[int]] = []
        self.requests, self._every = 0, every
        self._request_us, self._factor = request_us, factor

    def bind(self, sets: list[object]) -> Table:
        return Table(
            sets=len(sets), width=1, floats=0, spans=((),) * len(sets), words=b"", restored=int(self.restored > 0)
        )

    def populate(self, table: Table, sets: list[int]) -> None:
        self.populated.append(sets)

    def run(self, table: Table, calls: int, *, first: int, behind: bool, guarded: bool, order: bytes) -> Batch:
        self.first, self.order = first, order
        self.made = calls
        us, self.requests = 10.0 * calls, self.requests + 1
        extra_us = self._request_us if self.requests % self._every == 0 else 0.0
        cpu_ns = round(1e3 * (us * self._factor + extra_us))
        return Batch(
            calls=calls,
            claimed_ns=round(1e3 * us),
            wall_ns=cpu_ns + 20_000,
            cpu_ns=cpu_ns,
            restored_ns=round(1e3 * us * self.restored),
        )

    def note(self, batch: Batch) -> None:
        pass


def timed(process: Process, samples: int = 40) -> KernelTimer:
    timer = KernelTimer(cast(KernelProcess, process), cast(Any, [object()]), rng=np.random.default_rng(0))
    for _ in range(samples):
        assert timer.sample() == pytest.approx(10.0)
    return timer


def test_buffer_set_is_mapped_once_and_before_its_first_call() -> None:
    process, sets = Process(0.0), [object() for _ in range(200)]
    timer = KernelTimer(cast(KernelProcess, process), cast(Any, sets), rng=np.random.default_rng(0))
    for _ in range(40):
        timer.sample()
        called = np.frombuffer(process.order, np.uint32)[: process.made].tolist()
        assert {number for entered in process.populated for number in entered}.issuperset(called)
    entered = [number for numbers in process.populated for number in numbers]
    assert len(entered) == len(set(entered))


def test_short_timing_maps_only_buffer_sets_that_it_may_use() -> None:
    process, sets = Process(0.0), [object() for _ in range(200)]
    timer = KernelTimer(cast(KernelProcess, process), cast(Any, sets), rng=np.random.default_rng(0), calls=2)
    timer.sample()
    (entered,) = process.populated
    assert set(np.frombuffer(process.order, np.uint32).tolist()) < set(entered)
    assert 10 < len(entered) <= 18


@pytest.mark.parametrize("request_us", [10.0, 40.0, 80.0])
def test_correct_kernel_is_accepted_if_requests_to_its_process_are_slow(request_us: float) -> None:
    process = Process(request_us)
    timed(process)
    assert process.audit.contradiction() is None


def test_samples_of_a_consistent_kernel_have_the_minimum_duration() -> None:
    assert timed(Process(10.0)).calls * 10 == MINIMUM_SAMPLE_S * 1e6


def test_occasional_samples_with_impossible_times_do_not_lengthen_other_samples() -> None:
    process = Process(80.0, every=5)
    timer = timed(process, 100)
    assert timer.calls * 10 == MINIMUM_SAMPLE_S * 1e6
    assert process.audit.contradiction() is None
    assert timed(Process(80.0)).calls > timer.calls


@pytest.mark.parametrize("samples", [0, 3])
def test_warm_up_sends_one_request_and_records_no_time(samples: int) -> None:
    process = Process(10.0)
    timer = timed(process, samples)
    before, ledger = process.requests, len(process.audit.samples)
    timer.warm_up(10_000.0)
    assert (process.requests - before, process.made - 1000, len(process.audit.samples)) == (1, 0, ledger)


class Slow:
    """Fake buffers that take 100 µs to restore."""

    def restore(self) -> None:
        time.sleep(1e-4)


@pytest.mark.parametrize(("restored", "sample_us"), [(0.5, 1_000.0), (0.9, 5_000.0), (0.999, 8_000.0)])
def test_slow_restoring_of_arguments_limits_the_duration_of_samples_and_warm_ups(
    restored: float, sample_us: float
) -> None:
    process = Process(10.0, restored=restored)
    timer = KernelTimer(cast(KernelProcess, process), cast(Any, [Slow()]), rng=np.random.default_rng(0))
    assert timer.sample() == pytest.approx(10.0 * (1 - restored))
    assert process.made * 10.0 == pytest.approx(sample_us, rel=0.01)
    before = process.requests
    timer.warm_up(10_000.0)
    assert (process.requests - before, process.made) == (1, 1000)


@pytest.mark.parametrize("factor", [1.03, 1.1, 2.0])
def test_understated_kernel_times_are_detected_if_requests_are_slow(factor: float) -> None:
    process = Process(45.0, factor)
    timed(process)
    assert "more processor time" in (process.audit.contradiction() or "")


def test_number_of_calls_per_sample_follows_from_the_fastest_of_several_samples() -> None:
    takes = iter([1e-5, 1e-5, 1e-5, 5e-3, 5e-4, 5e-3])
    assert calibrated(lambda calls: next(takes)) == 50


@pytest.mark.parametrize("sets", [2, 3, 7, 64])
@pytest.mark.parametrize("calls", [1, 5, 200])
def test_buffer_set_order_is_random_and_reuses_no_set_within_half_a_round(sets: int, calls: int) -> None:
    orders = SetOrders(sets, np.random.default_rng(3))
    used = np.concatenate([orders.next(calls) for _ in range(2000 // calls)])[: 2000 // sets * sets]
    assert {len(turn) for turn in map(set, used.reshape(-1, sets).tolist())} == {sets}
    before: dict[int, int] = {}
    for place, number in enumerate(used.tolist()):
        assert place - before.get(number, -sets) > sets // 2 or sets < 3
        before[number] = place
    if sets > 3:
        followers = set(zip(used.tolist(), used[1:].tolist(), strict=False))
        assert len(followers) > sets


def test_order_of_buffer_sets_has_a_maximum_length() -> None:
    assert len(SetOrders(7, np.random.default_rng(0)).next(10 * MOST_ORDERS)) == MOST_ORDERS


def test_timer_reports_the_last_buffer_set_of_its_sample() -> None:
    process = Process(10.0)
    timer = KernelTimer(
        cast(KernelProcess, process), cast(Any, [object() for _ in range(7)]), rng=np.random.default_rng(0)
    )
    for _ in range(20):
        timer.sample()
        order = np.frombuffer(process.order, np.uint32)
        assert process.first == order[0]
        assert timer.last == order[(timer.calls - 1) % len(order)]


def test_timer_that_calls_every_buffer_set_once_sends_no_order() -> None:
    process = Process(10.0)
    sets = cast(Any, [object() for _ in range(7)])
    timer = KernelTimer(cast(KernelProcess, process), sets, rng=np.random.default_rng(0), once=True)
    timer.sample()
    assert (process.first, process.order, timer.last) == (0, b"", 6)


@pytest.mark.parametrize(("factor", "low_us", "high_us"), [(1.0, 10.0, 10.0), (3.0, 25.0, 30.0)])
def test_single_calls_on_buffer_sets_take_at_least_their_counted_processor_time(
    factor: float, low_us: float, high_us: float
) -> None:
    process, sets = Process(10.0, factor), cast(Any, [object() for _ in range(64)])
    timer = KernelTimer(cast(KernelProcess, process), sets, rng=np.random.default_rng(0), once=True)
    assert low_us <= timer.sample() <= high_us


def test_call_order_repeats_the_first_buffer_set_and_uses_every_other_set_once() -> None:
    visits = Visits(16, np.random.default_rng(0))
    orders = [visits.next(400) for _ in range(50)]
    for order in orders:
        assert np.bincount(order).tolist() == [400 - 15, *[1] * 15]
    latest = [int(np.flatnonzero(order)[-1]) for order in orders]
    assert min(latest) > 200
    assert max(latest) > 390
