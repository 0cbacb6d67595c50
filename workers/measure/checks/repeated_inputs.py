"""Compares calls on new inputs with calls on inputs that the kernel received before, in every process."""

import itertools
import math
from collections.abc import Sequence

from evo.promotion.policy import Policy
from evo.trial.results import Repetition
from evo.trial.timing import Timing
from workers.backends import Buffers, HostSession, Timer
from workers.measure.bench import Bench, Candidate
from workers.measure.checks.overwrite import MIXED_SETS, mixed_sets
from workers.measure.checks.repetition import USUAL_SETS, repetition, separate_sets, series_sets, sets_of_gpu
from workers.measure.checks.suspicion import cache_sizes, most_disagreement
from workers.measure.family.expected_output import Arrays
from workers.measure.timing import Moment

_NEW = 0x6E
"""Number that is appended to the seed of the process, for new inputs."""

_REPETITION_S = 0.5
"""Seconds that a process may spend on calls on new and known inputs, including drawing the inputs."""


def separate_buffers(bench: Bench, candidate: Candidate) -> tuple[Sequence[Buffers], Timer]:
    """Return buffer sets that share no memory, and a timer that calls the kernel once on each set."""
    arguments = candidate.arguments
    sets = bench.buffers.sets("cold", arguments)[:MIXED_SETS] if bench.terms.objective.cache == "cold" else ()
    if not sets:
        count = mixed_sets(bench.buffers.sets("hot", arguments)[0].bytes_held)
        sets = bench.session.allocate_sets(arguments, bench.buffers.nominal.inputs_of(arguments), count)
    return sets, bench.session.timer(candidate.kernel, sets, once=True)


def repetition_of(
    bench: Bench, candidate: Candidate, sets: Sequence[Buffers], moment: Moment, call_us: float
) -> Repetition | None:
    """Return the result of the repetition check, or None if the kernel has no inputs.

    `call_us` is the duration of a call in µs. Afterwards, the buffer sets contain the first timed inputs.
    """
    arguments, plan, drawn = candidate.arguments, bench.terms.cases[0], itertools.count()
    known = bench.buffers.timed[0].inputs_of(arguments)
    if not known:
        return None

    def draw() -> Arrays:
        inputs = bench.reference.draw(plan, (*bench.terms.seed, _NEW, next(drawn)))
        return {name: inputs[name] for name in known}

    chosen = sets[: number_of_sets(bench, sets[0].bytes_held, series_sets(call_us))]
    turn, again = _rotating(bench, candidate, chosen, len(chosen)), _rotating(bench, candidate, chosen[:1], len(chosen))
    found = repetition(turn, again, chosen, known=known, draw=draw, moment=moment, budget_s=_REPETITION_S)
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
