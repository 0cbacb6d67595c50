"""Quick gate: takes a few samples of a verified candidate, hot and cold."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from evo.trial.timing import Bars
from workers.measure.bench import Bench, Candidate, require_undamaged
from workers.measure.buffers import Mode
from workers.measure.cases import verify_deferred
from workers.measure.checks.new_inputs import judge_again
from workers.measure.checks.output import refusal
from workers.measure.power import QUICK_SPANS
from workers.measure.timing import Taken, take
from workers.measure.verify import WrongAnswerError
from workers.runner.protocol import Measure, Sampled


def measure(bench: Bench, request: Measure) -> Sampled:
    """Return the samples of the quick gate.

    Samples are taken in the cache mode of the objective. Candidates that may be the fastest are also sampled in the
    other cache mode.
    """
    candidate = bench.candidates[request.candidate]
    ranking, moment = bench.terms.objective.cache, bench.reference_timers.now()
    further = partial(verify_deferred, bench, candidate) if candidate.deferred else None
    taken, calls = _take(bench, candidate, ranking, request.samples, request.bars, promising=further)
    timing, environment = moment.timing(taken.samples_us, calls), {**bench.session.environment(), **bench.proofs}
    if candidate.deferred and len(taken.samples_us) < request.samples:
        environment["left out, because the candidate is not among the fastest"] = "mixed inputs, two threads"
    if taken.pruned:
        return Sampled(timing=timing, pruned=True, environment=environment)
    if len(taken.samples_us) < request.samples:
        judge_again(bench, candidate)
        return Sampled(timing=timing, environment=environment)
    if bench.meter is not None:
        power = bench.power({request.candidate: bench.timer(candidate)}, QUICK_SPANS)
        timing = replace(timing, power=power.get(request.candidate))
    beside, calls = _take(bench, candidate, "cold" if ranking == "hot" else "hot", request.other_samples)
    other = moment.timing(beside.samples_us, calls)
    judge_again(bench, candidate)
    sets = bench.buffers.sets("cold", candidate.arguments)
    environment["cold"] = f"{len(sets)} buffer sets of {sets[0].bytes_held} bytes"
    return Sampled(timing=timing, other=other, environment=environment)


def _take(
    bench: Bench,
    candidate: Candidate,
    mode: Mode,
    samples: int,
    bars: Bars = Bars(),
    *,
    promising: Callable[[], None] | None = None,
) -> tuple[Taken, int]:
    """Take samples, and check the outputs after each sample. Return the samples and the number of calls per sample.

    Args:
        bars: limits of the time of a call, above which fewer samples are taken (`workers.measure.timing.take`).
        promising: function that is called once after the first fifth of the samples, unless these samples exceed a
            limit; None if there is none.
    """
    sets = bench.buffers.sets(mode, candidate.arguments)
    timer = bench.session.timer(candidate.kernel, sets)
    # the outputs contain poison before the last sample, which reveals a timed loop that does not write
    before_last = sets[0].poison if mode == "hot" else None
    output_check = bench.output_check(candidate)
    taken = take(
        timer,
        samples,
        bars=bars,
        promising=promising,
        before_last=before_last,
        after=lambda: output_check.look_and_change(sets[timer.last]),
        warm=mode == "hot",
    )
    bench.require_nothing_left("the timed launches")
    if (wrong := refusal(output_check.found)) is not None:
        raise WrongAnswerError(wrong.reason)
    if mode == "hot":
        require_undamaged(sets[0], "the timed launches")
    return taken, timer.calls
