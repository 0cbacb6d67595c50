"""Checks that a kernel does not skip work in timed or repeated calls."""

from dataclasses import replace
from functools import partial

import numpy as np

from evo.family import DRAWN
from evo.promotion import straddles
from evo.promotion.policy import Policy
from evo.reference.encoding import is_floating
from evo.trial.results import OverwriteCheck
from evo.trial.timing import Timing
from workers.backends import HostSession
from workers.measure.bench import Bench, Candidate, require_undamaged
from workers.measure.checks.contents import HELD_BACK
from workers.measure.checks.long_runs import judge_long_runs
from workers.measure.checks.output import OutputCheck
from workers.measure.checks.overtaken import changing, judge_overtaken
from workers.measure.checks.overwrite import judge_mixed, overwrite_check, ring_sets
from workers.measure.checks.repeated_inputs import (
    number_of_sets,
    recognised,
    repetition_of,
    separate_buffers,
    time_limit,
)
from workers.measure.checks.suspicion import (
    SHORT_ROUNDS,
    Suspicion,
    cache_sizes,
    disagreement,
    repeat_check,
    short_batch,
    shortened,
)
from workers.measure.timing import Moment, interleave
from workers.runner.protocol import Compare

_OVERTAKEN, _RUNS = 0x6F, 0x70
"""Numbers that are appended to the seed of the process, for changes of inputs during calls, and for the lengths of long
runs."""

_RUNS_S = 0.1
"""Seconds that a process may spend on long runs of calls on several buffer sets."""

_OVERTAKEN_S = 0.3
"""Seconds that a process may spend on calls whose inputs change during the calls."""

_BUDGET_SHARE = 10
"""The overwrite check gets the time budget of the timed rounds, divided by this number."""


def skipped_work(
    bench: Bench,
    candidate: Candidate,
    timed: Timing,
    *,
    outputs: OutputCheck,
    moment: Moment,
    request: Compare,
) -> OverwriteCheck:
    """Check that the kernel does all of its work in every timed call, and return the measurements.

    Args:
        timed: samples of the timed rounds.
        outputs: object that verifies the outputs of calls, and counts wrong outputs.

    Raises:
        WrongAnswerError: the kernel skips work in repeated or timed calls, leaves threads or processes running, changes
            its process's state, or damages memory.
    """
    check = partial(_overwrite_check, bench, candidate, timed, outputs, moment=moment, request=request)
    suspicion_of = partial(_disagreement, bench, candidate, timed=timed, policy=request.policy)
    found: OverwriteCheck = repeat_check(check, suspicion_of, partial(_equal_calls, timed))
    return found


def _equal_calls(timed: Timing, found: OverwriteCheck) -> list[Timing | None]:
    calls = found.repetition
    return [timed, found.repeated, found.poisoned, *([] if calls is None else [calls.known, calls.same])]


def changing_inputs(bench: Bench, candidate: Candidate, found: OverwriteCheck, moment: Moment) -> OverwriteCheck:
    """Verify and time consecutive calls while their inputs change. Return `found` with the measured times.

    On a GPU, or if the family has no inputs, `found` is returned unchanged. If some inputs are integers, or may not be
    replaced in part (`CasePlan.mixed`), the calls are verified but not timed.

    Raises:
        WrongAnswerError: the kernel returns outputs for earlier inputs, leaves threads or processes running, or changes
            its process's state.
    """
    plan, arguments = bench.terms.cases[0], candidate.arguments
    if not (isinstance(bench.session, HostSession) and bench.buffers.nominal.inputs):
        return found
    (buffers,) = bench.buffers.sets("hot", arguments)
    contents, call_us = bench.buffers.contents(arguments), (found.repeated or found.answered).median_us
    goldens = [*bench.buffers.timed[:2], *bench.mixtures]
    rng = np.random.default_rng([*bench.terms.seed, _OVERTAKEN])
    contents.note(buffers, HELD_BACK)
    common = (bench.session, candidate.kernel, buffers, arguments, goldens)
    judged = judge_overtaken(*common, call_us=call_us, rng=rng, budget_s=_OVERTAKEN_S, mixed=plan.mixed)
    bench.proofs["inputs changed during consecutive calls"] = f"outputs of {judged} calls verified"
    timed = None
    if plan.mixed and all(is_floating(each.dtype) for each in plan.operands if each.role in DRAWN):
        common = (bench.session, candidate.kernel, buffers, arguments, goldens[:2])
        timed = changing(*common, call_us=call_us, moment=moment, rng=rng, budget_s=_OVERTAKEN_S)
    contents.put(buffers, 0)
    bench.require_nothing_left("launches whose inputs changed in the meantime")
    return replace(found, changing=timed)


def _overwrite_check(
    bench: Bench,
    candidate: Candidate,
    timed: Timing,
    outputs: OutputCheck,
    *,
    moment: Moment,
    request: Compare,
) -> OverwriteCheck:
    """Run the overwrite check, and the checks with changing and with new inputs. Return the combined result."""
    calls = timed.calls_per_sample
    mode, contents = bench.terms.objective.cache, bench.buffers.contents(candidate.arguments)
    sets = bench.buffers.sets(mode, candidate.arguments)
    content = contents.of(sets[0])
    if mode == "hot":
        cache_bytes = cache_sizes(bench.terms.device.limits).get("l2_bytes", bench.session.cold_bytes)
        wanted = ring_sets(candidate.arguments, calls, cache_bytes)
        sets = sets[0].siblings(wanted)
        for buffers in sets:
            contents.note(buffers, content)
    for buffers in sets:
        contents.put(buffers, content)
    sources = {"answered": candidate.rights[content], "poisoned": sets[0].sibling()}
    turn = bench.session.timer(candidate.kernel, sets, once=True)
    repeated = None
    if mode == "hot":
        repeated = bench.session.timer(candidate.kernel, [sets[0]] * len(sets), once=True)
    budget_s = request.budget_s / _BUDGET_SHARE
    found = overwrite_check(
        turn,
        sets,
        sources,
        look=outputs.look,
        moment=moment,
        budget_s=budget_s,
        undecided=partial(straddles, policy=request.policy),
        repeated=repeated,
    )
    mixed = separate_buffers(bench, candidate)
    turn = bench.session.timer(candidate.kernel, mixed, once=True)
    judge_mixed(turn, mixed, contents, look=outputs.look, calls=request.policy.judged_calls, budget_s=budget_s)
    if isinstance(bench.session, HostSession):
        rng = np.random.default_rng([*bench.terms.seed, _RUNS])
        common = (bench.session, candidate, mixed, contents)
        judged = judge_long_runs(*common, look=outputs.look, calls=calls, rng=rng, budget_s=_RUNS_S)
        bench.proofs["calls on other inputs in long runs"] = f"{judged} outputs verified"
    if bench.buffers.nominal.inputs_of(candidate.arguments):
        known = repetition_of(bench, candidate, mixed, moment, timed, outputs=outputs, policy=request.policy)
        found = replace(found, repetition=known)
    bench.require_nothing_left("launches on outputs that were overwritten")
    for each in (sets[0], sets[-1]):
        require_undamaged(each, "launches on outputs that were overwritten")
    return found


def _disagreement(
    bench: Bench, candidate: Candidate, found: OverwriteCheck, *, timed: Timing, policy: Policy
) -> Suspicion | None:
    """Return a suspicion that a kernel skips work in some calls, or None.

    If there are several, a proved or certain suspicion takes precedence.
    """
    confidence = policy.skip_confidence
    limit = time_limit(bench, candidate, found.poisoned, found.repeated, policy)
    suspicions = [disagreement(found.poisoned, found.repeated, limit, confidence)]
    if isinstance(bench.session, HostSession):  # only CPU kernels share memory with the loop that calls them
        suspicions += _of_batches(bench, bench.session, candidate, found, timed=timed, policy=policy)
    if (calls := found.repetition) is not None:
        limit = time_limit(bench, candidate, calls.known, calls.same, policy, shared_inputs=False)
        suspicions.append(disagreement(calls.known, calls.same, limit, confidence, what="inputs and outputs"))
        suspicions.append(recognised(bench, candidate, calls, timed=timed, policy=policy))
    return max(filter(None, suspicions), key=lambda each: each.certain or each.proved, default=None)


def _of_batches(
    bench: Bench, session: HostSession, candidate: Candidate, found: OverwriteCheck, *, timed: Timing, policy: Policy
) -> list[Suspicion | None]:
    """Compare batches as in the timed rounds with shorter batches and, if calls are hot, with separate buffers.

    Return the result of each comparison: a suspicion, or None if there is none. The calling loop of the timed rounds
    makes all batches, so a kernel cannot distinguish the batches by the address of their caller.
    """
    mode, arguments, confidence = bench.terms.objective.cache, candidate.arguments, policy.skip_confidence
    sets = bench.buffers.sets(mode, arguments)
    calls = {"timed": timed.calls_per_sample, "short": short_batch(timed, found.repeated or found.answered)}
    timers = {name: session.batch_timer(candidate.kernel, sets, count) for name, count in calls.items()}
    if mode == "hot":
        inputs = bench.buffers.nominal.inputs_of(arguments)
        separate = session.allocate_sets(arguments, inputs, number_of_sets(bench, sets[0].bytes_held))
        timers["separate"] = session.batch_timer(candidate.kernel, separate, calls["timed"])
    samples = interleave(timers, SHORT_ROUNDS, rng=np.random.default_rng(0), warm=mode == "hot")
    series = {
        name: replace(timed, samples_us=tuple(samples[name]), calls_per_sample=timers[name].calls) for name in timers
    }
    suspicions = [shortened(series["short"], series["timed"], policy.max_ring_ratio, confidence)]
    if mode == "hot":
        slow, fast = series["separate"], series["timed"]
        limit = time_limit(bench, candidate, slow, fast, policy, shared_inputs=False, sets=len(separate))
        suspicions.append(disagreement(slow, fast, limit, confidence, what="inputs and outputs"))
    return suspicions
