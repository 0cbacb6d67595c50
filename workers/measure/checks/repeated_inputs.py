"""Compares calls on new inputs with calls on inputs that the kernel received before, in every process."""

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from evo.promotion import repeat_limit
from evo.promotion.policy import Policy
from evo.reference.pieces import usable_cores
from evo.trial.results import Repetition
from evo.trial.timing import Timing
from workers.backends import Buffers, HostSession, Timer
from workers.measure.bench import Bench, Candidate, require_undamaged
from workers.measure.checks.overwrite import MIXED_SETS, mixed_sets
from workers.measure.checks.repetition import (
    USUAL_SETS,
    repetition,
    separate_sets,
    series_sets,
    sets_of_gpu,
)
from workers.measure.checks.suspicion import Suspicion, cache_sizes, most_disagreement, recognition, repeat_check
from workers.measure.family.expected_output import Arrays
from workers.measure.timing import Moment

_NEW = 0x6E
"""Number that is appended to the seed of the process, for new inputs."""

_REPETITION_S, _LATER_S = 0.5, 0.2
"""Seconds that the first process and each later process may spend on calls on new and known inputs, including drawing
the inputs.
"""

_ROUNDS, _LATER_ROUNDS = 2, 1
"""Minimum number of rounds in the first process and in each later process."""


def repeated_inputs(
    bench: Bench, candidate: Candidate, timed: Timing, *, moment: Moment, policy: Policy
) -> Repetition | None:
    """Check, in a process after the first, that the kernel does not recognise the inputs of the timed rounds.

    Return the samples, or None if the kernel has no inputs.

    Args:
        timed: samples of the timed rounds of this process.

    Raises:
        WrongAnswerError: the kernel recognises its inputs, or damages memory.
    """
    if not bench.buffers.nominal.inputs_of(candidate.arguments):
        return None
    sets, _ = separate_buffers(bench, candidate)

    def check() -> Repetition:
        return repetition_of(bench, candidate, sets, moment, timed.median_us, policy=policy, later=True)

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
    """Return a suspicion if the kernel recognises the inputs of the timed rounds, else None.

    Calls on new inputs may take longer than timed calls, because they load separate buffers. The limit allows for that
    (`time_limit`), and for branch predictors (`max_repeat_ratio_of_few`). On a GPU, this comparison is not made,
    because series of few launches take longer per launch than the timed rounds.
    """
    if not isinstance(bench.session, HostSession):
        return None
    limit = time_limit(bench, candidate, found.new, timed, policy, shared_inputs=False)
    if found.elements <= policy.few_elements:
        limit = max(limit, policy.max_repeat_ratio_of_few)
    return recognition(found, timed, limit)


def separate_buffers(bench: Bench, candidate: Candidate) -> tuple[Sequence[Buffers], Timer]:
    """Return buffer sets that share no memory, and a timer that calls the kernel once on each set."""
    arguments = candidate.arguments
    sets = bench.buffers.sets("cold", arguments)[:MIXED_SETS] if bench.terms.objective.cache == "cold" else ()
    if not sets:
        count = mixed_sets(bench.buffers.sets("hot", arguments)[0].bytes_held)
        sets = bench.session.allocate_sets(arguments, bench.buffers.nominal.inputs_of(arguments), count)
    return sets, bench.session.timer(candidate.kernel, sets, once=True)


def repetition_of(
    bench: Bench,
    candidate: Candidate,
    sets: Sequence[Buffers],
    moment: Moment,
    call_us: float,
    *,
    policy: Policy,
    later: bool = False,
) -> Repetition:
    """Return the samples of the repetition check of a kernel with inputs.

    Afterwards, the buffer sets contain the first timed inputs.

    Args:
        call_us: duration of a call in µs.
        later: True in a process after the first.
    """
    arguments, plan, drawn = candidate.arguments, bench.terms.cases[0], itertools.count()
    known = bench.buffers.timed[0].inputs_of(arguments)

    def new(number: int) -> Arrays:
        inputs = bench.reference.draw(plan, (*bench.terms.seed, _NEW, number))
        return {name: inputs[name] for name in known}

    chosen = sets[: number_of_sets(bench, sets[0].bytes_held, series_sets(call_us))]
    turn, again = _rotating(bench, candidate, chosen, len(chosen)), _rotating(bench, candidate, chosen[:1], len(chosen))
    with ThreadPoolExecutor(min(len(chosen), usable_cores())) as pool:
        found = repetition(
            turn,
            again,
            chosen,
            known=known,
            draw=lambda count: list(pool.map(new, itertools.islice(drawn, count))),
            moment=moment,
            budget_s=_LATER_S if later else _REPETITION_S,
            least=_LATER_ROUNDS if later else _ROUNDS,
            limit=repeat_limit(sum(array.size for array in known.values()), policy),
        )
    contents = bench.buffers.contents(arguments)
    for each in chosen:
        each.renew(known)
        contents.note(each, 0)
    return found


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
    """Return the maximum allowed ratio of two times, see `most_disagreement`.

    The memory's bandwidth determines the limit only on a CPU, because a GPU translates addresses of larger pages.

    Args:
        slow: samples of calls on separate buffers.
        fast: samples of repeated calls, or None if no repeated calls were timed.
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
    """Return the number of buffer sets, of `bytes_held` bytes each, for comparisons with calls on a single set."""
    near_bytes = cache_sizes(bench.terms.device.limits).get("l2_bytes", 0.0)
    if not isinstance(bench.session, HostSession):
        return sets_of_gpu(bytes_held, near_bytes)
    return separate_sets(bytes_held, near_bytes, bench.session.cold_bytes, most)


def _rotating(bench: Bench, candidate: Candidate, sets: Sequence[Buffers], calls: int) -> Timer:
    """Return a timer that makes `calls` calls per sample, on the sets in rotation.

    On a CPU, the calling loop is the same as in the timed rounds. Otherwise, a kernel could detect by the address of
    its caller whether it is timed.
    """
    if isinstance(bench.session, HostSession):
        return bench.session.batch_timer(candidate.kernel, sets, calls)
    return bench.session.timer(candidate.kernel, [*sets] * (calls // len(sets)), once=True)
