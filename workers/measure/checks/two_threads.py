"""Reentrancy check: two threads call a kernel at the same time, each on its own buffers, and both answers are judged.

A kernel that keeps intermediate data in static memory is correct as long as a single thread calls it. If it keeps
little there, or in few calls, most answers of two threads are right as well. Each call of a short kernel therefore has
outputs of its own, and all of them are judged.
"""

import time
from collections.abc import Sequence
from typing import Any

from workers.backends import Buffers, DeviceLostError, Session, TrespassError
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.verify import WrongAnswerError, judge

_LEAST_TURNS, _MOST_TURNS, _CALLS = 2, 24, 4
_SETS, _MOST_BYTES, _SHORT_TURN_S = 64, 1 << 22, 0.002
"""Number of judged calls of each thread in a turn, limited by the memory that their sets hold, if a turn of `_CALLS`
calls is short.
"""

_LAST_TURN_OF_MANY = 10
"""Turns after which no more of so many calls are made: judging them takes most of the time."""

_BUDGET_S = 0.06
"""Seconds after which no further turn begins, except for the first `_LEAST_TURNS`."""

_REMEDY = (
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
    """Call a kernel from two threads, several times, and judge the outputs that each turn leaves.

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
    remedy = _REMEDY + ("" if fixed else _DECLARE)
    began_s, both, calls = time.monotonic(), [[each] for each in sets], _CALLS
    last_s = began_s
    where = f"case {goldens[0].case}, called by two threads at once"
    for turn in range(_MOST_TURNS):
        now_s = time.monotonic()
        many = turn >= _LAST_TURN_OF_MANY and len(both[0]) > 1
        if many or (turn >= _LEAST_TURNS and now_s - began_s > _BUDGET_S):
            break
        if turn == _LEAST_TURNS and now_s - last_s < _SHORT_TURN_S:
            count = max(1, min(_SETS, _MOST_BYTES // max(each.bytes_held for each in sets)))
            both, calls = [each.siblings(count) for each in sets], max(count, _CALLS)
        last_s = now_s
        for each in (*both[0], *both[1]):
            each.poison()
        order = both if turn % 2 else both[::-1]
        try:
            session.call_together(kernel, [*order[0], *order[1]], calls)
        except TrespassError as error:
            raise WrongAnswerError(f"{where}: {error}{remedy}") from None
        except DeviceLostError as error:
            raise DeviceLostError(f"{error}, called by two threads at once{remedy}", killed=error.killed) from None
        for own, right, golden in zip(both, rights, goldens, strict=True):
            for each in own:
                if not each.same_outputs(right):
                    _judge(each, golden, where, remedy)
            for each in (own[0], own[-1]):
                if fault := each.damage():
                    raise WrongAnswerError(f"{where}: {fault}{remedy}")
    if fault := session.residue(kernel):
        raise WrongAnswerError(f"{where}: {fault}")


def _judge(buffers: Buffers, golden: ExpectedOutput, where: str, remedy: str) -> None:
    try:
        judge(buffers, golden, where)
    except WrongAnswerError as error:
        raise WrongAnswerError(f"{error.outcome.reason}{remedy}", error.outcome.cases) from None
