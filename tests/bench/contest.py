"""One contest: a real search, a sample of the space, then everybody in turns in one process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import TypeAdapter

from evo.explain import detail_text
from evo.job import Evaluate, FamilyRef, SearchTerms
from evo.outcome import Measured
from evo.policy import Policy
from evo.problem import problem_key
from evo.roofline import Roofline, device_roofline
from evo.space import Space
from evo.trial import Config
from evo.view import SearchView, TrialView
from templates.registry import Package, find
from workers.devices.cuda_copy import copy_us
from workers.families import Assignment, Families
from workers.kernel import KernelFile
from workers.ladder import Ladder
from workers.lock import exclusive
from workers.protocol import Compare, Compared, Verified, Verify
from workers.runners import Runners, ask
from workers.scratch import scratch

CHAMPION, AGAIN, DEFAULT, TYPICAL = "champion", "champion again", "default", "median of the sample"

SAMPLING = Policy(name="sample", quick_samples=10, seeds=1)
"""Ranks sampled configs well enough to find the middle one, which is then timed with the others."""

CONTEST_LIMIT_S = 1200.0


class BenchError(RuntimeError):
    """The benchmark cannot be run; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """What is contested, and what must hold of it.

    Attributes:
        minutes: of the search, where the effort names none.
        cache, launch: of its objective.
        least: speed-up of the champion over a baseline, by its name.
        within_us: the champion's time at most.
        least_share: of the speed of a copy that moves as many bytes, cold, at least.
    """

    family: str
    problem: str
    minutes: float = 2.0
    cache: str = "hot"
    launch: str = "plain"
    least: Mapping[str, float] = field(default_factory=dict)
    within_us: float | None = None
    least_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried.

    Attributes:
        trials, minutes: budget of the search.
        sample: configs drawn from the whole space at random; with 0 the middle one takes no part.
        rounds: interleaved samples of every contestant; half as many in the cache mode that does not rank.
        device: kind of device, ``cpu`` or ``cuda``.
        from_default: whether searches begin with the default alone.
    """

    trials: int
    minutes: float
    sample: int
    rounds: int
    seed: int
    device: str = "cpu"
    from_default: bool = False


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What came out.

    Attributes:
        configs: by contestant.
        sample_us: of every sampled config that is correct, fastest first; empty where none were drawn.
        refused: why a contestant did not take part, by its name.
        compared: entry i of all timings was taken in round i.
        other: the same in the cache mode that does not rank.
        copy_us: what a copy takes that moves as many bytes, past the caches; None where that was not asked for.
        from_default: whether the search began with the default alone.
    """

    search: SearchView
    configs: Mapping[str, Config]
    sample_us: tuple[float, ...]
    refused: Mapping[str, str]
    compared: Compared
    other: Compared
    roofline: Roofline | None
    copy_us: float | None = None
    from_default: bool = False


def hold(match: Match, effort: Effort, folder: Path) -> Contest:
    """Search, sample and compare.

    Raises:
        BenchError: the search found nothing, or a step failed.
    """
    view = search(match, effort, folder)
    best = view.champion or view.best
    if best is None:
        raise BenchError(f"the search of {match.family} measured no config: {dict(view.counts)}")
    package = find(view.family)
    with workshop(_terms(view, package), package, folder) as (ladder, runners, work):
        configs = {CHAMPION: best.config, DEFAULT: _space(work).default()}
        if sampled := _sample(ladder, work, effort):
            configs[TYPICAL] = sampled[len(sampled) // 2][1]
        built = {name: ladder.build(work, config) for name, config in configs.items()}
        kernels = {name: each.kernels for name, each in built.items() if each.refusal is None}
        turns = {TYPICAL: TYPICAL, DEFAULT: DEFAULT, CHAMPION: CHAMPION, AGAIN: CHAMPION}
        series = {row: name for row, name in turns.items() if name in kernels}
        compared = compare(runners, work, kernels, series, effort.rounds)
        other = compare(runners, _in_other_mode(work), kernels, series, max(effort.rounds // 2, 1))
    copied_us = _copy_us(work, folder) if match.least_share is not None else None  # which holds the device itself
    return Contest(
        search=view,
        configs=configs,
        sample_us=tuple(time_us for time_us, _ in sampled),
        refused={name: detail_text(each.refusal) for name, each in built.items() if each.refusal is not None},
        compared=compared,
        other=other,
        copy_us=copied_us,
        from_default=effort.from_default,
        roofline=device_roofline(view.device, work.copy.family.work(view.problem), view.objective),
    )


def _copy_us(work: Assignment, folder: Path) -> float | None:
    least = work.copy.family.work(work.terms.problem)
    return None if least is None else copy_us(work.terms.device, folder, int(least.bytes) // 2)


def other_mode(cache: str) -> Literal["hot", "cold"]:
    return "cold" if cache == "hot" else "hot"


def _in_other_mode(work: Assignment) -> Assignment:
    objective = replace(work.terms.objective, cache=other_mode(work.terms.objective.cache))
    return replace(work, terms=replace(work.terms, objective=objective), timed_only=True)


def search(match: Match, effort: Effort, folder: Path) -> SearchView:
    """The command a user would type, on a database of its own and from a cold cache."""
    place = _place(match, folder)
    place.mkdir()
    budget = ["--trials", str(effort.trials), "--minutes", str(effort.minutes), "--seed", str(effort.seed)]
    chosen = ["--device", effort.device, "--problem", match.problem, "--cache", match.cache, "--launch", match.launch]
    command = [sys.executable, "-m", "evo", "search", match.family, *budget, *chosen]
    command += ["--from-default"] if effort.from_default else []
    command += ["--db", str(place / "bench.db"), "--json"]
    empty = os.environ | {"XDG_CACHE_HOME": str(place / "cache")}
    done = subprocess.run(command, env=empty, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command[2:])} ended with status {done.returncode}")
    return TypeAdapter(SearchView).validate_json(done.stdout)


def trials_of(view: SearchView, match: Match, folder: Path) -> list[TrialView]:
    """Every trial of what `search` returned."""
    command = [sys.executable, "-m", "evo", "trials", str(view.id), "--json", "--limit", "1000000"]
    command += ["--db", str(_place(match, folder) / "bench.db")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return TypeAdapter(list[TrialView]).validate_json(done.stdout)


def _place(match: Match, folder: Path) -> Path:
    return folder / f"{match.family}-{match.problem}-{match.cache}-{match.launch}"


@contextmanager
def workshop(terms: SearchTerms, package: Package, folder: Path) -> Iterator[tuple[Ladder, Runners, Assignment]]:
    """What it takes to build and time configs by hand; the device is held meanwhile."""
    with scratch() as name, exclusive(terms.device.uuid):
        ladder, runners = Ladder(terms.device.kind, folder, Path(name)), Runners(folder)
        try:
            yield ladder, runners, Assignment(terms=terms, copy=Families(Path(name)).add(package))
        finally:
            ladder.close()
            runners.close()


def _terms(view: SearchView, package: Package) -> SearchTerms:
    return SearchTerms(
        search_id=0,
        family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
        problem=view.problem,
        device=view.device,
        objective=view.objective,
        policy=SAMPLING,
        seed=view.seed,
    )


def _space(work: Assignment) -> Space:
    return work.copy.family.space(work.terms.problem, work.terms.device, work.terms.objective)


def _sample(ladder: Ladder, work: Assignment, effort: Effort) -> list[tuple[float, Config]]:
    """Correct configs drawn at random, fastest first.

    Raises:
        BenchError: some were drawn, and none is correct.
    """
    timed: list[tuple[float, Config]] = []
    drawn = _space(work).sample(np.random.default_rng(effort.seed), effort.sample, set())
    for number, config in enumerate(drawn):
        print(f"\rsampling {problem_key(work.terms.problem)}: {number + 1} of {len(drawn)} ", end="", file=sys.stderr)
        built = ladder.build(work, config)
        outcome = ladder.evaluate(work, Evaluate(number=number, config=config), built).outcome
        built.discard()
        if isinstance(outcome, Measured):
            timed.append((outcome.timing.median_us, config))
    print(file=sys.stderr)
    if drawn and not timed:
        raise BenchError("no sampled config passed")
    return sorted(timed, key=lambda each: each[0])


def compare(
    runners: Runners,
    work: Assignment,
    kernels: Mapping[str, Mapping[str, KernelFile]],
    series: Mapping[str, str],
    rounds: int,
) -> Compared:
    """Fresh process, fresh inputs, all contestants and baselines in turns.

    Args:
        kernels: by contestant and case; each is verified again.
        series: what is timed, in the order of the answer → the contestant.
    """
    child = runners.fresh(work, rounds)
    try:
        for name, cases in kernels.items():
            request = Verify(candidate=name, kernels=cases)
            ask(child, request, Verified, stage="verify", limit_s=CONTEST_LIMIT_S)
        turns = Compare(series=series, rounds=rounds, baselines=True, budget_s=CONTEST_LIMIT_S)
        compared = ask(child, turns, Compared, stage="measure", limit_s=CONTEST_LIMIT_S)
    finally:
        child.kill()
    return replace(compared, series={name: compared.series[name] for name in series})
