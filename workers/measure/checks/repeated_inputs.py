"""Compares calls on new inputs with calls on inputs that the kernel received before, in every process."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from evo.promotion import repeat_limit
from evo.promotion.policy import Policy
from evo.trial.results import Repetition
from evo.trial.timing import Timing
from workers.backends import Buffers, HostSession, Timer
from workers.build.kernel import Argument
from workers.measure.bench import Bench, Candidate, require_undamaged
from workers.measure.checks.output import OutputCheck
from workers.measure.checks.overwrite import MIXED_SETS, mixed_sets
from workers.measure.checks.repetition import (
    USUAL_SETS,
    Inputs,
    repetition,
    separate_sets,
    series_sets,
    sets_of_gpu,
)
from workers.measure.checks.suspicion import Suspicion, cache_sizes, most_disagreement, recognition, repeat_check
from workers.measure.timing import Moment

_NEW, _PLACES = 0x6E, 0x71
"""Numbers that are appended to the seed of the process, for new inputs and for the calls whose outputs are verified."""

_REPETITION_S, _LATER_S = 0.5, 0.2
"""Seconds that the first process and each later process may spend on calls on new and known inputs, including drawing
the inputs.
"""

_ROUNDS, _LATER_ROUNDS = 2, 1
"""Minimum number of rounds in the first process and in each later process."""


def repeated_inputs(
    bench: Bench, candidate: Candidate, timed: Timing, *, outputs: OutputCheck, moment: Moment, policy: Policy
) -> Repetition | None:
    """Check, in a process after the first, that the kernel does not recognise the inputs of the timed rounds.

    Return the samples, or None if the kernel has no inputs.

    Args:
        timed: samples of the timed rounds of this process.
        outputs: object that verifies the outputs of calls, and counts wrong outputs.

    Raises:
        WrongAnswerError: the kernel recognises its inputs, leaves threads or processes running, changes its process's
            state, or damages memory.
    """
    if not bench.buffers.nominal.inputs_of(candidate.arguments):
        return None
    sets = separate_buffers(bench, candidate)

    def check() -> Repetition:
        return repetition_of(bench, candidate, sets, moment, timed, outputs=outputs, policy=policy, later=True)

    suspicion_of = partial(recognised, bench, candidate, timed=timed, policy=policy)
    found: Repetition = repeat_check(check, suspicion_of, lambda calls: (timed, calls.known, calls.same))
    where = "launches on new inputs"
    bench.require_nothing_left(where)
    for each in (sets[0], sets[-1]):
        require_undamaged(each, where)
    return found


def recognised(
    bench: Bench, candidate: Candidate, found: Repetition, *, timed: Timing, policy: Policy
) -> Suspicion | None:
    """Return a suspicion if the kernel recognises the inputs of the timed rounds, else None."""
    sets = found.new.calls_per_sample
    limit = _limit_of_new(bench, candidate, timed, policy, sets=sets, elements=found.elements)
    return recognition(found, timed, limit, policy.noisy_repeat_factor)


def _limit_of_new(
    bench: Bench, candidate: Candidate, timed: Timing, policy: Policy, *, sets: int, elements: int
) -> float:
    """Return the maximum allowed ratio of the time of a call on new inputs to the time of a call in the timed rounds.

    Calls on new inputs may take longer, because they load separate buffers (`time_limit`), and because of branch
    predictors (`max_repeat_ratio_of_few`). On a GPU, the result is infinite, because series of few launches take longer
    per launch than the timed rounds.

    Args:
        sets: number of buffer sets that the calls on new inputs use.
        elements: number of elements of the inputs of a call.
    """
    if not isinstance(bench.session, HostSession):
        return math.inf
    limit = time_limit(bench, candidate, timed, timed, policy, shared_inputs=False, sets=sets)
    return max(limit, policy.max_repeat_ratio_of_few) if elements <= policy.few_elements else limit


def separate_buffers(bench: Bench, candidate: Candidate) -> Sequence[Buffers]:
    """Return buffer sets that share no memory.

    If the search times cold calls, these are up to `MIXED_SETS` of the sets for cold calls. Otherwise, new sets are
    allocated.
    """
    arguments = candidate.arguments
    sets = bench.buffers.sets("cold", arguments)[:MIXED_SETS] if bench.terms.objective.cache == "cold" else ()
    if sets:
        return sets
    count = mixed_sets(bench.buffers.sets("hot", arguments)[0].bytes_held)
    return bench.session.allocate_sets(arguments, bench.buffers.nominal.inputs_of(arguments), count)


def repetition_of(
    bench: Bench,
    candidate: Candidate,
    sets: Sequence[Buffers],
    moment: Moment,
    timed: Timing,
    *,
    outputs: OutputCheck,
    policy: Policy,
    later: bool = False,
) -> Repetition:
    """Time a kernel on new inputs and on inputs that it was timed on before, and return the series of samples.

    Afterwards, the buffer sets contain the first timed inputs.

    Args:
        timed: samples of the timed rounds.
        outputs: object that verifies the outputs of calls, and counts wrong outputs.
        later: True in a process after the first.
    """
    arguments, contents = candidate.arguments, bench.buffers.contents(candidate.arguments)
    known = bench.buffers.timed[0].inputs_of(arguments)

    def look(buffers: Buffers) -> None:
        contents.note(buffers, 0)
        outputs.look([buffers])

    chosen = sets[: number_of_sets(bench, sets[0].bytes_held, series_sets(timed.median_us))]
    elements = sum(array.size for array in known.values())
    ratio = repeat_limit(elements, policy)
    limit = _limit_of_new(bench, candidate, timed, policy, sets=len(chosen), elements=elements)
    found = repetition(
        _rotating(bench, candidate, chosen, len(chosen)),
        _rotating(bench, candidate, chosen[:1], len(chosen)),
        chosen,
        known=known,
        draw=_Draw(bench=bench, arguments=arguments, outputs=outputs),
        look=look,
        rng=np.random.default_rng([*bench.terms.seed, _PLACES]),
        moment=moment,
        budget_s=_LATER_S if later else _REPETITION_S,
        least=_LATER_ROUNDS if later else _ROUNDS,
        suspicious=lambda new_us, known_us: new_us > min(ratio * known_us, limit * timed.median_us),
    )
    for each in chosen:
        each.renew(known)
        contents.note(each, 0)
    return found


@dataclass(frozen=True, kw_only=True)
class _Draw:
    """Draws new inputs for series of calls. No inputs are drawn twice in a process.

    For the first verified call of a process, the inputs are those of `BufferSets.held_back`, because their expected
    outputs are known already.
    """

    bench: Bench
    arguments: Sequence[Argument]
    outputs: OutputCheck

    def __call__(self, count: int, place: int) -> Inputs:
        """Return inputs for `count` calls, and a function that verifies the outputs of the call number `place`."""
        plan, reference = self.bench.terms.cases[0], self.bench.reference
        numbers = list(itertools.islice(self.bench.drawn, count))
        seeds = tuple((*self.bench.terms.seed, _NEW, number) for number in numbers)
        drawn = reference.drawn([replace(plan, seeds=seeds)])
        held_back = self.bench.buffers.held_back if numbers[0] == 0 else None
        if held_back is not None:
            drawn[place] = held_back.inputs
        names = [each.name for each in self.arguments if each.drawn]

        def verify(buffers: Buffers) -> None:
            self.outputs.look_at(buffers, held_back or reference.expected(plan, drawn[place]))

        return Inputs(inputs=[{name: made[name] for name in names} for made in drawn], verify=verify)


def time_limit(
    bench: Bench,
    candidate: Candidate,
    slow: Timing,
    fast: Timing | None,
    policy: Policy,
    *,
    shared_inputs: bool = True,
    sets: int | None = None,
) -> float:
    """Return how many times as long calls on separate buffers may take as repeated calls; see `most_disagreement`.

    The memory's bandwidth affects the limit only on a CPU, because pages on a GPU are larger.

    Args:
        slow: samples of calls on separate buffers.
        fast: samples of repeated calls, or None if no repeated calls were timed.
        shared_inputs: True if the buffer sets share their inputs.
        sets: number of buffer sets. If None, each call of a sample in `slow` has its own set.
    """
    ceilings = bench.terms.device.ceilings if isinstance(bench.session, HostSession) else None
    return most_disagreement(
        candidate.arguments,
        slow.calls_per_sample if sets is None else sets,
        bench.terms.device.limits,
        policy,
        shared_inputs=shared_inputs,
        fast_us=math.inf if fast is None else fast.median_us,
        bytes_per_s=math.inf if ceilings is None else ceilings.bytes_per_s,
    )


def number_of_sets(bench: Bench, bytes_held: int, most: int = USUAL_SETS) -> int:
    """Return the number of buffer sets, of `bytes_held` bytes each, for comparisons with calls on a single set.

    On a CPU, the result is at most `most`.
    """
    near_bytes = cache_sizes(bench.terms.device.limits).get("l2_bytes", 0.0)
    if not isinstance(bench.session, HostSession):
        return sets_of_gpu(bytes_held, near_bytes)
    return separate_sets(bytes_held, near_bytes, bench.session.cold_bytes, most)


def _rotating(bench: Bench, candidate: Candidate, sets: Sequence[Buffers], calls: int) -> Timer:
    """Return a timer that makes `calls` calls per sample, and uses each of the sets equally often.

    On a CPU, the calling loop is the same as in the timed rounds. Otherwise, a kernel could detect by the address of
    its caller whether it is timed. Arguments are restored before each call, so that each set keeps the outputs of its
    last call.
    """
    if isinstance(bench.session, HostSession):
        return bench.session.batch_timer(candidate.kernel, sets, calls, behind=False)
    return bench.session.timer(candidate.kernel, [*sets] * (calls // len(sets)), once=True)
