"""Times candidates and baselines in interleaved rounds, and checks the timed calls."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from evo.device.estimate.roofline import cold_sets
from evo.promotion.rules.sequential import clear, enough, precise
from evo.trial.objective import Objective
from evo.trial.timing import Power
from workers.measure.baselines import Baselines, prepare_baselines
from workers.measure.bench import Bench
from workers.measure.buffers import Mode
from workers.measure.checks.new_inputs import judge_again, judge_further
from workers.measure.checks.repeated_inputs import repeated_inputs
from workers.measure.checks.skipped_work import changing_inputs, skipped_work
from workers.measure.power import CONFIRM_SPANS
from workers.measure.timing import fitting_rounds, interleave
from workers.runner.protocol import Compare, Compared
from workers.system.seconds import Seconds

_ORDERS = 1
"""Number that is appended to the seed of the process, for the random order of the timers in each round."""


def compare(bench: Bench, request: Compare) -> Compared:
    """Time candidates and baselines in interleaved rounds, verify each candidate again, and return the samples."""
    mode, seconds = bench.terms.objective.cache, Seconds()
    if bench.meter is not None:  # half of the time is for the rounds, half for measuring energy
        request = replace(request, budget_s=request.budget_s / 2)
    chosen = {name: bench.candidates[candidate] for name, candidate in request.series.items()}
    with seconds.of("buffers"):
        timers = {name: bench.timer(each) for name, each in chosen.items()}
        bench.require_nothing_left("the first launches to be timed")
    with seconds.of("baselines"):
        baselines = _baselines(bench, mode, request.only) if request.baselines else Baselines()
        bench.session.settle()  # candidates are not blamed for processes of a baseline's library
    with seconds.of("rounds"):
        rounds = fitting_rounds(timers, baselines, request)
        output_checks = {name: bench.output_check(bench.candidates[name]) for name in set(request.series.values())}

        def look(name: str) -> None:
            if name in timers:
                sets = bench.buffers.sets(mode, chosen[name].arguments)
                output_checks[request.series[name]].look_and_change(sets[timers[name].last])

        orders = np.random.default_rng([*bench.terms.seed, _ORDERS])
        samples = interleave(
            {**timers, **baselines.timers},
            rounds,
            rng=orders,
            warm=mode == "hot",
            after=look,
            enough=partial(_enough, request, bench.terms.objective),
        )
        bench.require_nothing_left("the timed launches")
        moment = bench.reference_timers.now()
    power: Mapping[str, Power] = {}
    if "incumbent" in timers or request.overwrite_check is not None:
        with seconds.of("energy"):
            power = bench.power(timers, CONFIRM_SPANS, budget_s=request.budget_s)
            bench.require_nothing_left("the launches whose energy was measured")
    found = None
    if (name := request.overwrite_check) is not None:
        outputs = output_checks[request.series[name]]
        with seconds.of("overwritten outputs"):
            timed = moment.timing(samples[name], timers[name].calls)
            found = skipped_work(bench, chosen[name], timed, outputs=outputs, moment=moment, request=request)
        with seconds.of("changing inputs"):
            found = changing_inputs(bench, chosen[name], found, moment)
    repetition = None
    if (name := request.new_inputs) is not None:
        with seconds.of("new inputs"):
            timed = moment.timing(samples[name], timers[name].calls)
            outputs = output_checks[request.series[name]]
            repetition = repeated_inputs(
                bench, chosen[name], timed, outputs=outputs, moment=moment, policy=request.policy
            )
    with seconds.of("further inputs"):
        if (name := request.series.get("challenger")) is not None and request.inputs:
            judge_further(bench, bench.candidates[name], output_checks[name], request.inputs)
        answers = {name: output_check.found for name, output_check in output_checks.items()}
        for candidate in (bench.candidates[name] for name, each in answers.items() if not each.wrong):
            judge_again(bench, candidate)
    return Compared(
        series={
            name: replace(moment.timing(samples[name], timer.calls), power=power.get(name))
            for name, timer in timers.items()
        },
        baselines={name: moment.timing(samples[name], timer.calls) for name, timer in baselines.timers.items()},
        unavailable=baselines.unavailable,
        overwrite_check=found,
        repetition=repetition,
        answers=answers,
        environment={**bench.session.environment(), **bench.proofs},
        seconds=seconds.taken,
    )


def _baselines(bench: Bench, mode: Mode, only: str | None) -> Baselines:
    problem = bench.terms.cases[0].problem
    return prepare_baselines(
        bench.session,
        bench.reference,
        problem,
        bench.buffers.nominal,
        function=bench.driver.baselines,
        sets=(lambda _: 1) if mode == "hot" else partial(_cold_copies, bench),
        only=only,
    )


def _cold_copies(bench: Bench, baselines: int) -> int:
    """Return the number of copies of the inputs for each baseline: enough to exceed the caches, if memory permits."""
    nominal = bench.buffers.nominal
    inputs, outputs = (sum(array.nbytes for array in arrays.values()) for arrays in (nominal.inputs, nominal.reference))
    if not bench.driver.limits_address_space:
        return cold_sets(bench.session.cold_bytes, inputs, bench.terms.memory_limit_bytes)
    return cold_sets(bench.session.cold_bytes, inputs + outputs, bench.terms.memory_limit_bytes // baselines)


def _enough(request: Compare, objective: Objective, samples: Mapping[str, Sequence[float]]) -> bool:
    """Return True if no more rounds are needed.

    This is the case if the challenger's time ratios are precise enough, or if more rounds cannot change the decision.
    The result is always False if no challenger is timed, or if the request also contains the series ``champion``.
    """
    own, policy, first = samples.get("challenger"), request.policy, "challenger_again" in request.series
    if own is None or "champion" in request.series:
        return False
    names = dict.fromkeys(["incumbent", *request.series, request.only])
    pairs = [(own, samples[name]) for name in names if name is not None and name != "challenger" and name in samples]
    if objective.metric is not None:  # the decision depends on more than these times
        return precise(pairs, policy)
    if "incumbent" in samples:
        return enough(pairs, policy, first=first)
    baselines = [each for name, each in samples.items() if name not in request.series]
    return precise(pairs, policy) or (first and clear(own, baselines, policy))
