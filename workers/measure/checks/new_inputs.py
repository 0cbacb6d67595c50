"""Verifies calls on inputs that the candidate did not receive while it was timed."""

import time

from workers.backends import Buffers, TrespassError
from workers.measure.bench import Bench, Candidate, require_undamaged
from workers.measure.checks.contents import HELD_BACK
from workers.measure.checks.output import OutputCheck
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.verify import WrongAnswerError, judge

_FURTHER = 0x66
"""Number that is appended to the seed of the process, for inputs that differ from those of the cases."""

_FURTHER_S = 0.3
"""Seconds that a process may spend on drawing inputs and verifying calls on them."""


def judge_further(bench: Bench, candidate: Candidate, output_check: OutputCheck, most: int) -> None:
    """Verify one call on each of at most `most` newly drawn sets of inputs, within `_FURTHER_S` seconds."""
    (buffers,) = bench.buffers.sets("hot", candidate.arguments)
    contents, plan = bench.buffers.contents(candidate.arguments), bench.terms.cases[0]
    before, began_s = contents.of(buffers), time.monotonic()
    for number in range(most):
        if time.monotonic() - began_s + bench.reference.slowest_s > _FURTHER_S:
            break
        golden = bench.reference.further(plan, (*bench.terms.seed, _FURTHER, number))
        _call(bench, candidate, buffers, golden, "a launch on newly drawn inputs", poison=True)
        output_check.look_at(buffers, golden)
    contents.put(buffers, before)


def judge_again(bench: Bench, candidate: Candidate) -> None:
    """Verify a call on the inputs in `BufferSets.held_back`, which were not timed, in the buffers of timed calls."""
    (buffers,) = bench.buffers.sets("hot", candidate.arguments)
    golden, where = bench.buffers.held_back, "a launch on new inputs after the timing"
    _call(bench, candidate, buffers, golden, where)
    require_undamaged(buffers, where)
    bench.require_nothing_left(where)
    judge(buffers, golden, where)
    bench.buffers.contents(candidate.arguments).put(buffers, 0)


def _call(
    bench: Bench, candidate: Candidate, buffers: Buffers, golden: ExpectedOutput, where: str, *, poison: bool = False
) -> None:
    """Fill the buffers with inputs that are not timed, and call the kernel.

    If `poison` is True, the outputs are filled with poison before the call.
    """
    buffers.renew(golden.inputs_of(candidate.arguments))
    bench.buffers.contents(candidate.arguments).note(buffers, HELD_BACK)
    if poison:
        buffers.poison()
    try:
        bench.session.call(candidate.kernel, buffers)
    except TrespassError as error:
        raise WrongAnswerError(f"{where}: {error}") from None
