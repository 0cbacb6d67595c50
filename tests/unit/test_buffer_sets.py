"""Buffer sets for cold calls are allocated in another thread during the verification, and then kept."""

import threading
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evo.promotion.policy import Policy
from evo.trial.timing import Bars
from workers.backends import Buffers
from workers.backends.cpu.memory import host_sets
from workers.build.kernel import Argument
from workers.jobs.evaluation import _verify
from workers.measure.buffers import BufferSets
from workers.measure.family.expected_output import ExpectedOutput
from workers.runner.protocol import Verified, Verify

X = Argument(name="x", role="input", dtype="float32", shape=(8,))
OUT = Argument(name="out", role="output", dtype="float32", shape=(8,))
ARGUMENTS = (X, OUT)
INPUTS = {"x": np.arange(8, dtype=np.float32)}


class Session:
    """A session that counts its allocations by number of sets. `fault` is raised instead of an allocation of many."""

    cold_bytes = 1000

    def __init__(self) -> None:
        self.allocated: list[int] = []
        self.threads: list[threading.Thread] = []
        self.fault: Exception | None = None

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        self.allocated.append(count)
        self.threads.append(threading.current_thread())
        if count > 1 and self.fault is not None:
            raise self.fault
        return host_sets(arguments, inputs, count)


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def buffers(session: Session) -> BufferSets:
    terms: Any = SimpleNamespace(cases=[SimpleNamespace(name="nominal")], memory_limit_bytes=1 << 30)
    golden = ExpectedOutput(case="nominal", inputs=INPUTS, reference={}, limits={})
    untyped: Any = session
    return BufferSets(terms=terms, session=untyped, golden={"nominal": (golden,)})


def test_buffer_sets_for_cold_calls_are_allocated_once_in_another_thread(buffers: BufferSets, session: Session) -> None:
    for _ in range(2):
        with buffers.allocating_cold(ARGUMENTS):
            pass
    hot, cold = session.allocated
    assert hot == 1
    assert cold > 2
    assert session.threads[0] is threading.current_thread() is not session.threads[1]
    sets = buffers.sets("cold", ARGUMENTS)
    assert len(sets) == cold
    assert all(np.array_equal(each.read("x"), INPUTS["x"]) for each in sets)
    assert len(session.allocated) == 2


def test_failed_allocation_of_buffer_sets_is_reported_when_the_sets_are_needed(
    buffers: BufferSets, session: Session
) -> None:
    session.fault = MemoryError("no memory")
    with buffers.allocating_cold(ARGUMENTS):
        pass
    assert len(buffers.sets("hot", ARGUMENTS)) == 1
    with pytest.raises(MemoryError, match="no memory"):
        buffers.sets("cold", ARGUMENTS)
    session.fault = None
    assert len(buffers.sets("cold", ARGUMENTS)) > 2


def test_buffer_sets_allocated_during_a_failed_verification_are_not_kept(buffers: BufferSets, session: Session) -> None:
    with pytest.raises(ValueError, match="wrong"), buffers.allocating_cold(ARGUMENTS):
        raise ValueError("wrong answer")
    buffers.sets("cold", ARGUMENTS)
    assert len(session.allocated) == 3


@pytest.mark.parametrize(("bars", "expected"), [(Bars(), True), (Bars(prune_us=9.0, shorten_us=5.0), False)])
def test_buffer_sets_for_cold_calls_are_allocated_early_only_for_a_first_candidate(bars: Bars, expected: bool) -> None:
    asked: list[Verify] = []

    def ask(request: Verify, timeout_s: float) -> Verified:
        asked.append(request)
        return Verified(cases=())

    child: Any = SimpleNamespace(ask=ask)
    terms: Any = SimpleNamespace(policy=Policy())
    built: Any = SimpleNamespace(kernels={})
    _verify(child, terms, built, bars)
    assert [each.cold_ahead for each in asked] == [expected]
