"""Reentrancy check: two threads call a kernel at the same time, each on its own buffers, and both answers are judged.

A kernel that keeps intermediate data in static memory is correct as long as a single thread calls it.
"""

import time
from collections.abc import Sequence
from typing import Any

from workers.backends import Buffers, DeviceLostError, Session, TrespassError
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.verify import WrongAnswerError, judge

_LEAST_TURNS, _MOST_TURNS, _CALLS = 2, 24, 4
_BUDGET_S = 0.06
"""Seconds after which no further turn begins, except for the first `_LEAST_TURNS`."""

_WAY_OUT = (
    ". A kernel that keeps intermediate data in static memory is wrong if two threads call it. Use local or allocated "
    "memory"
)
_DECLARE = "; or, if callers never do that, declare it in family.toml: reentrant = false under [cpu]"


def judge_two_threads(
    session: Session,
    kernel: Any,
    sets: Sequence[Buffers],
    rights: Sequence[Buffers],
    goldens: Sequence[ExpectedOutput],
    *,
    fixed: bool = False,
) -> None:
    """Call a kernel from two threads, several times, and judge the outputs of the last calls of each turn.

    Args:
        sets: two sets with different inputs.
        rights: for each of them, a set with the verified outputs; equal bits need no further judgement.
        goldens: the expected outputs of each.
        fixed: True if the author of the kernel cannot change the family's contract, as for a variant: the reason then
            does not suggest to declare it.

    Raises:
        WrongAnswerError: an answer is wrong, or the kernel did something forbidden.
        DeviceLostError: its process ended.
    """
    way_out = _WAY_OUT + ("" if fixed else _DECLARE)
    began_s = time.monotonic()
    where = f"case {goldens[0].case}, called by two threads at once"
    for turn in range(_MOST_TURNS):
        if turn >= _LEAST_TURNS and time.monotonic() - began_s > _BUDGET_S:
            return
        for each in sets:
            each.poison()
        order = [0, 1] if turn % 2 else [1, 0]
        try:
            session.call_together(kernel, [sets[place] for place in order], _CALLS)
        except TrespassError as error:
            raise WrongAnswerError(f"{where}: {error}{way_out}") from None
        except DeviceLostError as error:
            raise DeviceLostError(f"{error}, called by two threads at once{way_out}", killed=error.killed) from None
        for each, right, golden in zip(sets, rights, goldens, strict=True):
            if fault := each.damage():
                raise WrongAnswerError(f"{where}: {fault}{way_out}")
            if not each.same_outputs(right):
                _judge(each, golden, where, way_out)
    if fault := session.residue(kernel):
        raise WrongAnswerError(f"{where}: {fault}")


def _judge(buffers: Buffers, golden: ExpectedOutput, where: str, way_out: str) -> None:
    try:
        judge(buffers, golden, where)
    except WrongAnswerError as error:
        raise WrongAnswerError(f"{error.outcome.reason}{way_out}", error.outcome.cases) from None
