"""If inputs change during a loop of calls, later calls must use the new inputs."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from evo.trial.results import Changing
from tests.unit.fake_session import FakeBuffers
from workers.backends import Change, Overlap
from workers.build.kernel import Argument
from workers.measure.checks.overtaken import LEAST_PAIRS, changing, judge_overtaken
from workers.measure.family.expected_output import ExpectedOutput, Limit
from workers.measure.timing import Moment
from workers.measure.verify import WrongAnswerError

ARGUMENTS = [
    Argument(name="x", role="input", dtype="float64", shape=(4,)),
    Argument(name="y", role="output", dtype="float64", shape=(4,)),
]


def golden(seed: int) -> ExpectedOutput:
    x = np.random.default_rng(seed).standard_normal(4)
    limits = {"y": Limit(rel_l2=1e-9, max_abs=1e-9)}
    return ExpectedOutput(case="nominal", inputs={"x": x}, reference={"y": 2 * x}, limits=limits)


class Pace:
    """A fake loop of calls. The inputs are changed during its first call."""

    def __init__(self) -> None:
        self._looks = iter([True, False])

    @property
    def running(self) -> bool:
        return next(self._looks)

    def wait_for(self, calls: int) -> None: ...

    def halt_after_next(self) -> int:
        return 1

    def change_between(self, change: Callable[[], None]) -> int:
        change()
        return 1


class Session:
    """A fake session that reports `made` calls, or no calls if `made` is None. `kernel` writes the last output."""

    def __init__(self, kernel: Callable[[FakeBuffers, np.ndarray[Any, Any]], None], made: int | None) -> None:
        self._kernel, self._made, self.turns = kernel, made, 0

    def call_while(self, kernel: Any, buffers: FakeBuffers, calls: int, change: Change) -> Overlap | None:
        self.turns += 1
        if self._made is None:
            return None
        before, pace = buffers.arrays["x"].copy(), Pace()
        change(pace)
        self._kernel(buffers, before)
        return Overlap(made=self._made, call_us=self._cost(buffers, before))

    def _cost(self, buffers: FakeBuffers, before: np.ndarray[Any, Any]) -> float:
        """Return the time of a call: short for a stale kernel whose inputs have not changed, else long."""
        return 1.0 if self._kernel is stale and np.array_equal(buffers.arrays["x"], before) else 4.0


def right(buffers: FakeBuffers, before: np.ndarray[Any, Any]) -> None:
    buffers.arrays["y"][:] = 2 * buffers.arrays["x"]


def stale(buffers: FakeBuffers, before: np.ndarray[Any, Any]) -> None:
    buffers.arrays["y"][:] = 2 * before


def judged(session: Session, *, mixed: bool = True) -> int:
    buffers = FakeBuffers({"x": np.zeros(4)}, {"y": np.full(4, np.nan)})
    return judge_overtaken(
        session,  # type: ignore[arg-type]
        None,
        buffers,
        ARGUMENTS,
        [golden(seed) for seed in range(3)],
        call_us=100.0,
        rng=np.random.default_rng(0),
        budget_s=60.0,
        mixed=mixed,
    )


@pytest.mark.parametrize("mixed", [False, True])
def test_kernel_that_reads_its_inputs_at_every_call_is_accepted(mixed: bool) -> None:
    assert judged(Session(right, made=2), mixed=mixed) > 0


@pytest.mark.parametrize("mixed", [False, True])
def test_kernel_that_uses_overwritten_inputs_is_refused(mixed: bool) -> None:
    with pytest.raises(WrongAnswerError, match=r"after its inputs had changed.*wrong in 2 of 2 batches"):
        judged(Session(stale, made=2), mixed=mixed)


@pytest.mark.parametrize(("wrong", "refused"), [({5}, False), ({5, 20}, True), ({5, 100}, True), ({63}, False)])
def test_single_wrong_output_after_an_input_change_is_checked_again(wrong: set[int], refused: bool) -> None:
    numbers = itertools.count()

    def sometimes(buffers: FakeBuffers, before: np.ndarray[Any, Any]) -> None:
        (stale if next(numbers) in wrong else right)(buffers, before)

    if refused:
        with pytest.raises(WrongAnswerError, match="wrong in 2 of"):
            judged(Session(sometimes, made=2))
    else:
        assert judged(Session(sometimes, made=2)) == 128


@pytest.mark.parametrize("made", [None, 0, 1])
def test_output_is_not_checked_unless_a_call_began_after_the_input_change(made: int | None) -> None:
    assert judged(Session(stale, made)) == 0


@pytest.mark.parametrize(("kernel", "ratio"), [(right, 1.0), (stale, 4.0)])
def test_kernel_that_reuses_stored_outputs_is_slower_if_inputs_change(
    kernel: Callable[[FakeBuffers, np.ndarray[Any, Any]], None], ratio: float
) -> None:
    buffers = FakeBuffers({"x": np.zeros(4)}, {"y": np.full(4, np.nan)})
    found = changing(
        Session(kernel, made=2),  # type: ignore[arg-type]
        None,
        buffers,
        ARGUMENTS,
        [golden(0), golden(1)],
        call_us=100.0,
        moment=Moment(anchor_us=1.0, floor_us=0.0),
        rng=np.random.default_rng(0),
        budget_s=0.0,
    )
    assert found is not None
    assert len(found.different.samples_us) == len(found.same.samples_us) == LEAST_PAIRS
    assert found.different.median_us / found.same.median_us == ratio
    assert np.array_equal(buffers.arrays["x"], golden(0).inputs["x"])


class WritingSession(Session):
    """A session whose kernel keeps the outputs of many inputs. The second core makes `writes` writes per batch."""

    def __init__(self, writes: Sequence[int]) -> None:
        super().__init__(stale, made=100)
        self._writes, self._known = itertools.cycle(writes), set[bytes]()

    def call_while(self, kernel: Any, buffers: FakeBuffers, calls: int, change: Change) -> Overlap | None:
        self.turns += 1
        looks, new = iter([True] * next(self._writes) + [False]), list[bool]()

        class Look(Pace):
            @property
            def running(self) -> bool:
                new.append((now := buffers.arrays["x"].tobytes()) not in session._known)
                session._known.add(now)
                return next(looks)

        session = self
        change(Look())
        return Overlap(made=100, call_us=40.0 if np.mean(new) > 0.5 else 10.0)


def changing_with(session: Session, size: int, budget_s: float = 0.0) -> Changing | None:
    drawn = [
        ExpectedOutput(case="nominal", inputs={"x": each}, reference={}, limits={})
        for each in np.random.default_rng(0).standard_normal((2, size))
    ]
    return changing(
        session,  # type: ignore[arg-type]
        None,
        FakeBuffers({"x": np.zeros(size)}, {"y": np.full(4, np.nan)}),
        ARGUMENTS,
        drawn,
        call_us=10.0,
        moment=Moment(anchor_us=1.0, floor_us=0.0),
        rng=np.random.default_rng(0),
        budget_s=budget_s,
    )


def test_kernel_that_caches_outputs_of_many_inputs_is_slower_if_inputs_change() -> None:
    found = changing_with(WritingSession([150]), size=5000)
    assert found is not None
    assert found.different.median_us / found.same.median_us == 4.0


@pytest.mark.slow
def test_samples_with_too_few_input_changes_by_the_second_core_are_repeated() -> None:
    session = WritingSession([150, 150, 3, 150, 150, 3])
    found = changing_with(session, size=5000, budget_s=60.0)
    assert found is not None
    assert found.different.samples_us == (40.0,) * len(found.different.samples_us)
    assert len(found.different.samples_us) < session.turns // 2


class UncountedSession(WritingSession):
    """A `WritingSession` for which the system counts no processor time in every third batch."""

    def call_while(self, kernel: Any, buffers: FakeBuffers, calls: int, change: Change) -> Overlap | None:
        found = super().call_while(kernel, buffers, calls, change)
        return Overlap(made=100, call_us=None) if self.turns % 3 == 0 else found


def test_samples_without_processor_time_of_the_second_core_are_discarded() -> None:
    found = changing_with(UncountedSession([150]), size=5000, budget_s=2.0)
    assert found is not None
    assert len(found.same.samples_us) == len(found.different.samples_us) >= LEAST_PAIRS
    assert set(found.different.samples_us) == {40.0}
