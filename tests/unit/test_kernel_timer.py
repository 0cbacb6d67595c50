"""Length of samples: repetitions of contradicted samples are longer, which tells a dear request from a wrong clock."""

from typing import Any, cast

import pytest

from workers.backends.cpu.batch import Batch, contradicted, contradicts, worth_repeating
from workers.backends.cpu.device import MINIMUM_SAMPLE_S, KernelTimer, calibrated
from workers.backends.cpu.kernel_process import KernelProcess, Table

IDLE = [Batch(calls=1000, claimed_ns=2_000, wall_ns=17_000, cpu_ns=12_000) for _ in range(9)]


class Process:
    """A kernel process whose calls take 10 µs each.

    Args:
        request_us: processor time of a request apart from the calls.
        factor: processor time of a call relative to the claimed time.
    """

    def __init__(self, request_us: float, factor: float = 1.0) -> None:
        self.ledger: list[Batch] = []
        self._request_us, self._factor = request_us, factor

    def bind(self, sets: object, *, new: bool) -> Table:
        return Table(sets=1, width=1, floats=0, spans=(), words=b"")

    def run(self, table: Table, calls: int, *, first: int, behind: bool) -> Batch:
        us = 10.0 * calls
        cpu_ns = round(1e3 * (us * self._factor + self._request_us))
        return Batch(calls=calls, claimed_ns=round(1e3 * us), wall_ns=cpu_ns + 20_000, cpu_ns=cpu_ns)

    def worth_repeating(self, batch: Batch) -> bool:
        return worth_repeating(batch, self.ledger, IDLE, 1)

    def contradicts(self, batch: Batch) -> bool:
        return contradicts(batch, IDLE, 1)

    def note(self, batch: Batch) -> None:
        pass


def timed(process: Process, samples: int = 40) -> KernelTimer:
    timer = KernelTimer(cast(KernelProcess, process), cast(Any, [object()]))
    for _ in range(samples):
        assert timer.sample() == pytest.approx(10.0)
    return timer


@pytest.mark.parametrize("request_us", [10.0, 40.0, 80.0])
def test_kernel_after_which_requests_are_dear_is_accepted(request_us: float) -> None:
    process = Process(request_us)
    timed(process)
    assert contradicted(process.ledger, IDLE, 1) is None


def test_samples_that_are_not_contradicted_stay_short() -> None:
    assert timed(Process(10.0)).calls * 10 == MINIMUM_SAMPLE_S * 1e6


@pytest.mark.parametrize("factor", [1.03, 1.1, 2.0])
def test_wrong_clock_is_refused_where_requests_are_dear(factor: float) -> None:
    process = Process(45.0, factor)
    timed(process)
    assert "more processor time" in (contradicted(process.ledger, IDLE, 1) or "")


def test_fastest_of_several_calibrations_counts() -> None:
    takes = iter([1e-5, 1e-5, 1e-5, 5e-3, 5e-4, 5e-3])
    assert calibrated(lambda calls: next(takes)) == 50
