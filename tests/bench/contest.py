"""Compares the champion of a search with random configs and baselines, interleaved in one process (a contest)."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from evo.cli.service.devices import choose, local_devices
from evo.device import Device
from evo.device.estimate.roofline import Roofline, device_roofline
from evo.family.problem import problem_key
from evo.messages.job import Evaluate, FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.space import Space
from evo.trial import Config
from evo.trial.explain import detail_text
from evo.trial.objective import PROTOCOL_VERSION
from evo.trial.outcome import Measured
from templates.registry import Package, find
from tests.bench.found import Found, champion
from tests.bench.searching import BenchError, Effort, Match
from workers.backends.cuda.machine.copy_bandwidth import copy_us, with_measured_copies
from workers.build.families import Assignment, Families
from workers.build.kernel import KernelFile
from workers.jobs.evaluation import Evaluator
from workers.runner.pool import Runners, ask
from workers.runner.protocol import Compare, Compared, Verified, Verify
from workers.system.device_lock import exclusive
from workers.system.scratch import scratch

CHAMPION, AGAIN, DEFAULT, TYPICAL = "champion", "champion again", "default", "median of the sample"

SAMPLING = Policy(name="sample", quick_samples=10, seeds=1)
"""Policy of the random configs. It has enough samples to find the median config, which becomes a contestant."""

CONTEST_LIMIT_S = 1200.0


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Result of a contest.

    Attributes:
        device: the device on which all contestants were timed.
        note: the family's note about times on this device; empty if there is none.
        again: True if the champion was loaded from a file, False if it was found by a search.
        configs: the config of each contestant.
        sample_us: times of the correct sampled configs, fastest first; empty if no configs were sampled.
        refused: reason by contestant, for contestants that were not compared.
        compared: times in the objective's cache mode; entry i of each series was taken in round i.
        other: times in the other cache mode.
        copy_us: time to copy as many bytes as the kernel moves, with cold caches; None if not requested.
    """

    found: Found
    device: Device
    note: str
    again: bool
    configs: Mapping[str, Config]
    sample_us: tuple[float, ...]
    refused: Mapping[str, str]
    compared: Compared
    other: Compared
    roofline: Roofline | None
    copy_us: float | None = None


def hold(match: Match, effort: Effort, folder: Path) -> Contest:
    """Run a search or load its stored result, time random configs, and compare all contestants.

    Raises:
        BenchError: the search found nothing, the stored result is for another device or space, or a step failed.
    """
    found, again = champion(match, effort, folder)
    package = find(found.family)
    device = device_at_hand(found, package, effort.device, folder)
    with workshop(terms_of(found, device, package, effort.seed), package, folder) as (evaluator, runners, work):
        space = _space(work)
        configs = {CHAMPION: found.whole(space), DEFAULT: space.default()}
        if sampled := _sample(evaluator, work, effort):
            configs[TYPICAL] = sampled[len(sampled) // 2][1]
        built = {name: evaluator.build(work, config) for name, config in configs.items()}
        if (refusal := built[CHAMPION].refusal) is not None:
            raise BenchError(
                f"{found.family} {found.problem}: its champion does not pass verification: {detail_text(refusal)}"
            )
        kernels = {name: each.kernels for name, each in built.items() if each.refusal is None}
        turns = {TYPICAL: TYPICAL, DEFAULT: DEFAULT, CHAMPION: CHAMPION, AGAIN: CHAMPION}
        series = {row: name for row, name in turns.items() if name in kernels}
        compared = compare(runners, work, kernels, series, effort.rounds)
        other = compare(runners, _in_other_mode(work), kernels, series, max(effort.rounds // 2, 1))
    copied_us = (
        _copy_us(work, folder) if match.least_share is not None else None
    )  # the search takes the device lock itself
    return Contest(
        found=found,
        device=device,
        note=work.copy.family.note(work.terms.problem, device),
        again=again,
        configs=configs,
        sample_us=tuple(time_us for time_us, _ in sampled),
        refused={name: detail_text(each.refusal) for name, each in built.items() if each.refusal is not None},
        compared=compared,
        other=other,
        copy_us=copied_us,
        roofline=device_roofline(device, work.copy.family.work(work.terms.problem), work.terms.objective),
    )


def device_at_hand(found: Found, package: Package, kind: str, folder: Path) -> Device:
    """Return this machine's device of a kind.

    Raises:
        BenchError: the stored champion was found on a different device model.
    """
    device = choose(local_devices(), kind, package.family)
    if device.model != found.device_model:
        told = f"its champion was found on {found.device_model}, not on this {device.model}"
        raise BenchError(f"{found.family} {found.problem}: {told}; name another folder to search again")
    return with_measured_copies([device], folder)[0] if device.kind == "cuda" else device


def _copy_us(work: Assignment, folder: Path) -> float | None:
    least = work.copy.family.work(work.terms.problem)
    return None if least is None else copy_us(work.terms.device, folder, int(least.bytes) // 2)


def other_mode(cache: str) -> Literal["hot", "cold"]:
    return "cold" if cache == "hot" else "hot"


def _in_other_mode(work: Assignment) -> Assignment:
    objective = replace(work.terms.objective, cache=other_mode(work.terms.objective.cache))
    return replace(work, terms=replace(work.terms, objective=objective), timed_only=True)


@contextmanager
def workshop(terms: SearchTerms, package: Package, folder: Path) -> Iterator[tuple[Evaluator, Runners, Assignment]]:
    """Lock the device; yield the evaluator, runners and assignment that build and time configs on it."""
    with scratch() as name, exclusive(terms.device.uuid):
        evaluator, runners = Evaluator(terms.device.kind, folder, Path(name)), Runners(folder)
        try:
            yield evaluator, runners, Assignment(terms=terms, copy=Families(Path(name)).add(package))
        finally:
            evaluator.close()
            runners.close()


def terms_of(found: Found, device: Device, package: Package, seed: int) -> SearchTerms:
    """Return search terms with the problem and objective of the champion's search."""
    return SearchTerms(
        search_id=0,
        family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
        problem=package.family.problem(found.problem, device.kind),
        device=device,
        objective=replace(found.objective, protocol=PROTOCOL_VERSION),
        policy=SAMPLING,
        seed=seed,
    )


def _space(work: Assignment) -> Space:
    return work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective)


def _sample(evaluator: Evaluator, work: Assignment, effort: Effort) -> list[tuple[float, Config]]:
    """Return the times of correct random configs, fastest first.

    Raises:
        BenchError: no sampled config is correct.
    """
    timed: list[tuple[float, Config]] = []
    drawn = _space(work).sample(np.random.default_rng(effort.seed), effort.sample, set())
    for number, config in enumerate(drawn):
        print(f"\rsampling {problem_key(work.terms.problem)}: {number + 1} of {len(drawn)} ", end="", file=sys.stderr)
        built = evaluator.build(work, config)
        outcome = evaluator.evaluate(work, Evaluate(number=number, config=config), built).outcome
        built.discard()
        if isinstance(outcome, Measured):
            timed.append((outcome.timing.median_us, config))
    if drawn:
        print(file=sys.stderr)
        if not timed:
            raise BenchError("no sampled config is correct")
    return sorted(timed, key=lambda each: each[0])


def compare(
    runners: Runners,
    work: Assignment,
    kernels: Mapping[str, Mapping[str, KernelFile]],
    series: Mapping[str, str],
    rounds: int,
    *,
    baselines: bool = True,
    budget_s: float = CONTEST_LIMIT_S,
) -> Compared:
    """Time all contestants and, optionally, the baselines interleaved, in a new process with new inputs.

    Args:
        kernels: kernels by contestant and case. All are verified again.
        series: contestants by the name of their series.
        budget_s: time limit of the rounds in seconds; see `Compare.budget_s`.
    """
    child = runners.fresh(work, rounds)
    try:
        for name, cases in kernels.items():
            request = Verify(candidate=name, kernels=cases)
            ask(child, request, Verified, stage="verify", limit_s=CONTEST_LIMIT_S)
        turns = Compare(series=series, rounds=rounds, baselines=baselines, budget_s=budget_s)
        compared = ask(child, turns, Compared, stage="measure", limit_s=CONTEST_LIMIT_S)
    finally:
        child.kill()
    return replace(compared, series={name: compared.series[name] for name in series})
