"""Runs the comparisons, and writes their tables as a page and their results as JSON."""

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from evo.strategy import STRATEGIES
from tests.bench.strategy import (
    asking,
    bars,
    crowd,
    evaluations,
    failing,
    functions,
    moments,
    noisy,
    ours,
    problems,
    rivals,
    tables,
    transfer,
)
from tests.bench.strategy.field import Effort
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.variants import STEPS
from workers.system.machine import processor_model

DEFAULT = next(iter(STRATEGIES))
NOTHING = "The archive contains no runs of the current default strategy."
PACKAGES = ("numpy", "scipy", "optuna", "kernel_tuner", "cmaes", "torch", "scikit-learn", "smac")


@dataclass(kw_only=True)
class Report:
    """The report, to which each comparison adds its part.

    Attributes:
        page: Markdown.
        figures: all results, for the JSON file.
        missed: requirements that are not met.
        judges: True if there are enough runs to check requirements.
    """

    tell: Callable[[str], None]
    judges: bool = True
    page: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        self.page.append(text)
        self.tell(text)

    def note(self, name: str, found: Mapping[str, Any]) -> None:
        self.figures[name] = {key: plain(value) for key, value in found.items()}

    def hold(self, missed: Iterable[str]) -> None:
        self.missed += missed if self.judges else ()

    def lack(self) -> None:
        """Report that runs of the default strategy are missing, so that requirements cannot be checked."""
        self.add(f"{NOTHING}\n")
        self.missed.append(NOTHING)


def plain(value: Any) -> Any:
    """Convert a result to JSON types, without bootstrap samples."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key: plain(each) for key, each in asdict(value).items() if key != "draws"}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float | np.floating):
        return round(float(value), 6) if np.isfinite(value) else None
    return value


def heading(report: Report, effort: Effort) -> None:
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    report.add(
        f"{processor_model()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}; {platform.system()}, "
        f"Python {platform.python_version()}, {versions}. {len(effort.paths)} spaces, {effort.seeds} seeds unless the "
        f"table states fewer.\n"
    )


def ask_evaluations(report: Report, effort: Effort, contestants: list[Contestant]) -> None:
    """Compare the contestants by evaluations and, from the same runs, by time."""
    runs, found = evaluations.compare(effort, contestants)
    if DEFAULT not in found:
        report.lack()
        return
    others = [name for name in found if name not in STRATEGIES]
    report.add(f"### Comparison by evaluations\n\n{tables.standings(found)}")
    report.add(tables.by_space(found, effort.grounds))
    report.add(tables.leads(found, DEFAULT))
    report.note("evaluations", found)
    report.hold(bars.standing(found, DEFAULT, [*others, *({"random"} & set(found))]))
    timed = moments.compare(effort, runs, contestants)
    report.add(f"### Comparison by time\n\n{tables.timings(timed)}")
    report.note("time", timed)
    if DEFAULT in timed:
        report.hold(bars.timing(timed, DEFAULT, [name for name in others if name in timed]))


def ask_rivals(report: Report, effort: Effort, contestants: list[Contestant]) -> None:
    found = rivals.compare(effort, contestants)
    if DEFAULT not in found:
        report.lack()
        return
    report.add(f"### Distance from the optimum after {evaluations.BUDGET}\n\n{tables.distances(found, effort.grounds)}")
    report.note("rivals", found)


def ask_crowd(report: Report, effort: Effort) -> None:
    chosen = [*(each for each in ours.contestants() if each.name in (DEFAULT, "random")), *ours.crowded()]
    found = crowd.compare(effort, chosen)
    if DEFAULT not in found:
        report.lack()
        return
    report.add(f"### Many parallel workers\n\n{tables.crowding(found, effort.grounds)}")
    report.note("crowd", found)
    report.hold(bars.crowding(found, DEFAULT))


def ask_costs(report: Report, lengths: tuple[int, ...]) -> None:
    found = {f"{DEFAULT}, {name} space": asking.ours(DEFAULT, make(), lengths) for name, make in asking.SPACES.items()}
    found["Optuna TPE"] = asking.stock(lengths)
    report.add(f"### Cost of a proposal\n\n{tables.asking(found)}")
    report.note("asking", found)
    report.hold(bars.asking(found, DEFAULT))


def ask_ablation(report: Report, effort: Effort) -> None:
    whole = [each for each in ours.contestants() if each.name == DEFAULT]
    if not ours.variants():
        return
    _, found = evaluations.compare(effort, [*whole, *ours.variants()])
    if DEFAULT not in found:
        report.lack()
        return
    report.add(f"### Value of each component\n\n{tables.ablation(found, DEFAULT, effort.grounds)}")
    report.note("ablation", found)


def ask_steps(report: Report, effort: Effort) -> None:
    chance = [each for each in ours.contestants() if each.name == "random"]
    _, found = evaluations.compare(effort, [*chance, *ours.steps()])
    upon = {name: below for name, (below, _) in STEPS.items() if {name, below} <= found.keys()}
    if not upon:
        report.lack()
        return
    report.add(f"### Components added one after another\n\n{tables.building(found, upon, effort.grounds)}")
    report.note("steps", found)


def ask_failing(report: Report, effort: Effort) -> None:
    seeds = max(2, round(failing.SHARE * effort.seeds))
    found = failing.compare(effort.grounds, DEFAULT, seeds)
    title = f"### Spaces where {failing.FAIL:.0%} of the configs fail"
    report.add(f"{title}\n\n{seeds} seeds.\n\n{tables.failing(found, effort.grounds)}")
    report.note("failing", {name: dict(zip(_names(effort), tolls, strict=True)) for name, tolls in found.items()})


def ask_noisy(report: Report, effort: Effort) -> None:
    seeds = max(2, round(noisy.SHARE * effort.seeds))
    found = noisy.compare(effort.grounds, DEFAULT, seeds)
    report.add(f"### Noisy times\n\n{seeds} seeds.\n\n{tables.noisy(found, effort.grounds)}")
    report.note("noisy", {name: dict(zip(_names(effort), each, strict=True)) for name, each in found.items()})


def ask_transfer(report: Report, effort: Effort) -> None:
    seeds = max(2, round(transfer.SHARE * effort.seeds))
    found = transfer.compare(effort.grounds, DEFAULT, seeds)
    report.add(f"### Value of advice\n\n{seeds} seeds.\n\n{tables.transfer(found, effort.grounds)}")
    report.note("transfer", {name: dict(zip(_names(effort), starts, strict=True)) for name, starts in found.items()})


def ask_problems(report: Report, seeds: int) -> None:
    found = problems.compare(DEFAULT, seeds)
    report.add(f"### Value of results of other problems\n\n{seeds} seeds.\n\n{tables.problems(found)}")
    report.note("problems", found)


def ask_functions(report: Report, effort: Effort) -> None:
    seeds = max(2, round(functions.SHARE * effort.seeds))
    found = functions.compare(seeds)
    report.add(f"### Sampler in plain Optuna studies\n\n{seeds} seeds.\n\n{tables.functions(found)}")
    report.note("functions", found)


def _names(effort: Effort) -> list[str]:
    return [ground.name for ground in effort.grounds]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
