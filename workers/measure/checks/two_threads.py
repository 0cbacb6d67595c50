"""Reentrancy check: two threads call a kernel at the same time on separate buffers, and all outputs are verified.

A kernel that keeps intermediate data in static memory is correct only if a single thread calls it. If the kernel keeps
little data there, or only in a few calls, two threads rarely corrupt a result. The check therefore makes several turns
of concurrent calls, with many calls per turn if the kernel is short. In the first turns, all calls of a thread write to
the same outputs. In later turns of a short kernel, each call has its own outputs if memory permits. All outputs are
verified after each turn. In half of the turns, one thread waits for a random time between its calls, which varies how
the calls overlap.
"""

import math
import time
from collections.abc import Sequence
from typing import Any

from workers.backends import Buffers, DeviceLostError, HostSession, TrespassError
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.verify import WrongAnswerError, judge

_LEAST_TURNS, _MOST_TURNS, _CALLS = 2, 24, 4
_SETS, _MOST_BYTES, _SHORT_US = 64, 1 << 22, 500.0
"""Maximum number of buffer sets per thread and turn, their maximum total size in bytes, and duration in µs below which
a call is short. In a *turn*, both threads call the kernel, and then the outputs are verified. Only turns of short calls
use more than one set per thread.
"""

_TURNS_OF_MANY = 10
"""Maximum number of turns with more than one set per thread. Verifying their outputs takes most of the time."""

_BUDGET_S, _BUDGET_OF_VERY_SHORT_S, _VERY_SHORT_US = 0.06, 0.2, 50.0
"""Seconds after which no new turn begins, the same limit for very short calls, and duration in µs below which a call is
very short. The first `_LEAST_TURNS` turns always begin. Turns of very short calls get more time, because they mostly
wait for two free cores on a busy machine.
"""

_REMEDY = (
    ". A kernel that keeps intermediate data in static memory is wrong if two threads call it. Use local or allocated "
    "memory"
)
_DECLARE = ". If callers never use two threads, declare reentrant = false under [cpu] in family.toml"


def judge_two_threads(
    session: HostSession,
    kernel: Any,
    sets: Sequence[Buffers],
    rights: Sequence[Buffers],
    goldens: Sequence[ExpectedOutput],
    *,
    fixed: bool = False,
) -> None:
    """Call a kernel from two threads at the same time, in several turns, and verify the outputs after each turn.

    Args:
        sets: one buffer set for each thread.
        rights: for each of `sets`, a buffer set with the verified outputs. Outputs are compared with the expected
            outputs only if their bits differ from the verified outputs.
        goldens: expected outputs for each of `sets`.
        fixed: True for a variant, whose author cannot change family.toml. The error message then does not suggest a
            change.

    Raises:
        WrongAnswerError: an output is wrong, or the kernel wrote outside its buffers or changed its process.
        DeviceLostError: the kernel's process ended.
    """
    remedy = _REMEDY + ("" if fixed else _DECLARE)
    began_s, both, calls, call_us = time.monotonic(), [[each] for each in sets], _CALLS, math.inf
    where = f"case {goldens[0].case}, called by two threads concurrently"
    for turn in range(_MOST_TURNS):
        if turn == _LEAST_TURNS and call_us < _SHORT_US:
            count = max(1, min(_SETS, _MOST_BYTES // max(each.bytes_held for each in sets)))
            both, calls = [each.siblings(count) for each in sets], max(count, _CALLS)
        most = _LEAST_TURNS + _TURNS_OF_MANY if len(both[0]) > 1 else _MOST_TURNS
        budget_s = _BUDGET_OF_VERY_SHORT_S if call_us < _VERY_SHORT_US else _BUDGET_S
        if turn >= _LEAST_TURNS and (turn >= most or time.monotonic() - began_s > budget_s):
            break
        for each in (*both[0], *both[1]):
            each.poison()
        order = both if turn % 2 else both[::-1]
        try:
            jitter = turn if turn % 4 > 1 else 0
            call_us = min(call_us, session.call_together(kernel, [*order[0], *order[1]], calls, jitter=jitter))
        except TrespassError as error:
            raise WrongAnswerError(f"{where}: {error}{remedy}") from None
        except DeviceLostError as error:
            raise DeviceLostError(f"{error}, called by two threads concurrently{remedy}", killed=error.killed) from None
        for own, right, golden in zip(both, rights, goldens, strict=True):
            for each, same in zip(own, right.same_outputs(own), strict=True):
                if not same:
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
