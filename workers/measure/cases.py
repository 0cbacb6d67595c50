"""Verifies a candidate on all cases, with buffers at several addresses, with mixed inputs, and in two threads."""

from collections.abc import Sequence
from typing import Any

from evo.trial.outcome import CaseError, Pruned
from workers.backends import Buffers, HostSession
from workers.build.kernel import KernelFile
from workers.measure.bench import Bench, Candidate
from workers.measure.checks.contents import HELD_BACK
from workers.measure.checks.two_threads import judge_two_threads
from workers.measure.proof import ProofPlan
from workers.measure.verify import HopelessError, WrongAnswerError, remember, verify, verify_elsewhere
from workers.runner.protocol import CasePlan, Verified, Verify

_LEAST_HOPELESS_US = 20_000.0
"""Candidates with calls of at most this duration in µs are verified on all cases, even if they are much slower than the
best trials. Skipping cases of such fast candidates would save little time.
"""


def verify_candidate(bench: Bench, request: Verify) -> Verified:
    """Load a candidate's kernels, verify each case for which the request has a kernel, and return the errors.

    Raises:
        WrongAnswerError: a result is wrong, or a kernel broke a rule, e.g. wrote outside its buffers.
        LaunchError: a kernel could not be loaded or launched.
        HopelessError: the candidate is too slow to be verified on all cases.
    """
    timed = request.kernels.get(bench.terms.cases[0].name)
    if request.cold_ahead and timed is not None and isinstance(bench.session, HostSession):
        with bench.buffers.allocating_cold(timed.arguments):
            return _verify_cases(bench, request)
    return _verify_cases(bench, request)


def _verify_cases(bench: Bench, request: Verify) -> Verified:
    """Verify a candidate as `verify_candidate` describes."""
    bench.candidates.pop(request.candidate, None)
    chosen = [plan for plan in bench.terms.cases if plan.name in request.kernels]
    loading = (_loaded(bench, plan, request.kernels[plan.name]) for plan in chosen)
    following, errors = next(loading, None), list[CaseError]()
    for plan in chosen:
        loaded, following = following, next(loading, None)  # loads the next case while this case is verified
        assert loaded is not None
        errors += _verify_case(bench, plan, request, *loaded)
        del loaded
    return Verified(cases=tuple(errors))


def _loaded(bench: Bench, plan: CasePlan, file: KernelFile) -> tuple[ProofPlan, Any]:
    """Draw the conditions under which a case is verified, load the case's kernel, and return both."""
    bench.loads += 1
    proof = ProofPlan.draw((*plan.seeds[0], bench.terms.process), bench.loads)
    return proof, bench.load(file, None if plan is bench.terms.cases[0] else proof.core)


def _verify_case(bench: Bench, plan: CasePlan, request: Verify, proof: ProofPlan, kernel: Any) -> list[CaseError]:
    """Verify one case, and return the errors of its outputs. The kernel of the timed case becomes the candidate."""
    file = request.kernels[plan.name]
    timed = plan is bench.terms.cases[0]
    goldens = bench.buffers.timed if timed else bench.buffers.golden[plan.name]
    (buffers,) = bench.buffers.of_case(plan.name, file.arguments)
    rights, errors = list[Buffers](), list[CaseError]()
    for content, golden in enumerate(goldens):
        # all inputs are at the same addresses, because a kernel may recognise addresses
        bench.buffers.put(buffers, plan.name, content, file.arguments)
        verified = verify(
            bench.session,
            kernel,
            buffers,
            golden,
            launches=request.launches if content == 0 else 1,
            deterministic=bench.terms.objective.deterministic,
            stale=content > 0,
            fixed=bench.terms.fixed,
            brief=isinstance(bench.session, HostSession),
        )
        errors += verified.errors
        if timed and content == 0:
            _require_hope(bench, verified.durations_us, request.hopeless_us)
        if timed:
            rights.append(buffers.sibling())
            rights[-1].rewrite(buffers)
    on_host = isinstance(bench.session, HostSession)
    right = remember(buffers, goldens[-1]) if on_host else {}  # must precede calls on other inputs
    candidate = Candidate(
        kernel=kernel, arguments=file.arguments, rights=tuple(rights), deferred=timed and request.deferred
    )
    if timed and not request.deferred:
        _verify_mixtures(bench, candidate, buffers)
    if on_host:
        launches_elsewhere = (bench.session, kernel, buffers, goldens[-1], proof.launches)
        verify_elsewhere(*launches_elsewhere, right=right, fixed=bench.terms.fixed)
        bench.proofs[f"proof of {plan.name}"] = proof.words
    if timed and not request.deferred:
        _verify_two_threads(bench, candidate, buffers)
    if timed:
        bench.candidates[request.candidate] = candidate
    elif isinstance(bench.session, HostSession) and (fault := bench.session.finish(kernel)):
        raise WrongAnswerError(f"case {plan.name}: {fault}")
    return errors


def _require_hope(bench: Bench, durations_us: Sequence[float], hopeless_us: float | None) -> None:
    """Stop the verification of a candidate that is far slower than the best trials.

    Raises:
        HopelessError: the shortest call took longer than `hopeless_us` and `_LEAST_HOPELESS_US`.
    """
    if hopeless_us is None or min(durations_us) <= max(hopeless_us, _LEAST_HOPELESS_US):
        return
    timing = bench.reference_timers.now().timing(durations_us, 1)
    raise HopelessError(Pruned(timing=timing, threshold_us=hopeless_us, verified=False))


def verify_deferred(bench: Bench, candidate: Candidate) -> None:
    """Run the postponed checks with mixed inputs and with two threads (`Verify.deferred`)."""
    (buffers,) = bench.buffers.sets("hot", candidate.arguments)
    _verify_mixtures(bench, candidate, buffers)
    _verify_two_threads(bench, candidate, buffers)


def _verify_two_threads(bench: Bench, candidate: Candidate, buffers: Buffers) -> None:
    """Verify concurrent calls of two threads.

    One thread uses the timed buffers, the other thread a separate buffer set.
    """
    if not (isinstance(bench.session, HostSession) and bench.terms.reentrant):
        return
    contents = bench.buffers.contents(candidate.arguments)
    contents_by_thread = [contents.of(buffers), 0]
    judge_two_threads(
        bench.session,
        candidate.kernel,
        [buffers, contents.source(0)],
        [candidate.rights[each] for each in contents_by_thread],
        [bench.buffers.timed[each] for each in contents_by_thread],
        fixed=bench.terms.fixed,
    )


def _verify_mixtures(bench: Bench, candidate: Candidate, buffers: Buffers) -> None:
    """Verify one call on each of the mixed inputs, in the timed buffers.

    The first two mixtures differ little from the nominal inputs. Before each of these two, the kernel is called on the
    nominal inputs, so that a kernel that reuses its last results is detected.
    """
    kernel, arguments, contents = candidate.kernel, candidate.arguments, bench.buffers.contents(candidate.arguments)
    before, deterministic = contents.of(buffers), bench.terms.objective.deterministic
    nominal, mixtures = bench.buffers.timed[:1], bench.mixtures
    for golden in (*nominal, *mixtures[:1], *nominal, *mixtures[1:]) if mixtures else ():
        buffers.renew(golden.inputs_of(arguments))
        contents.note(buffers, HELD_BACK)
        verify(bench.session, kernel, buffers, golden, launches=1, deterministic=deterministic, brief=True)
    contents.put(buffers, before)
