"""Runs the search of a contest with the user's command."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from evo.messages.view import SearchView, TrialView


class BenchError(RuntimeError):
    """The benchmark cannot run. The message states the reason."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """Problem, objective and required results of a contest.

    Attributes:
        minutes: duration of the search in minutes, unless `Effort.minutes` is set.
        cache, launch: cache mode and launch mode of the objective.
        least: required speed-up of the champion over each baseline, by name of the baseline.
        within_us: required maximum time of the champion in µs.
        least_share: required ratio of the champion's bandwidth to the bandwidth of a copy with cold caches.
    """

    family: str
    problem: str
    minutes: float = 2.0
    cache: str = "hot"
    launch: str = "plain"
    least: Mapping[str, float] = field(default_factory=dict)
    within_us: float | None = None
    least_share: float | None = None

    @property
    def name(self) -> str:
        """File name of the contest's result, without suffix."""
        return f"{self.family}-{self.problem}-{self.cache}-{self.launch}"


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Extent of a benchmark.

    Attributes:
        trials, minutes: budget of the search.
        sample: number of random configs of the whole space. With 0, the median config is not compared.
        rounds: number of interleaved samples of each contestant. The other cache mode gets half as many.
        device: device kind, ``cpu`` or ``cuda``.
        from_default: True if searches start only with the default config.
        champions: folder of stored results, which are used instead of searches.
    """

    trials: int
    minutes: float
    sample: int
    rounds: int
    seed: int
    device: str = "cpu"
    from_default: bool = False
    champions: Path | None = None


def search(match: Match, effort: Effort, folder: Path) -> SearchView:
    """Run the user's search command with a new database and an empty cache. Return the search."""
    place = _place(match, folder)
    place.mkdir()
    budget = ["--trials", str(effort.trials), "--minutes", str(effort.minutes), "--seed", str(effort.seed)]
    chosen = ["--device", effort.device, "--problem", match.problem, "--cache", match.cache, "--launch", match.launch]
    command = [sys.executable, "-m", "evo", "search", match.family, *budget, *chosen]
    command += ["--from-default"] if effort.from_default else []
    command += ["--db", str(database_of(match, folder)), "--json"]
    empty = os.environ | {"XDG_CACHE_HOME": str(place / "cache")}
    done = subprocess.run(command, env=empty, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"{' '.join(command[2:])} ended with status {done.returncode}")
    return TypeAdapter(SearchView).validate_json(done.stdout)


def trials_of(view: SearchView, match: Match, folder: Path) -> list[TrialView]:
    """Return all trials of a search that `search` ran."""
    command = [sys.executable, "-m", "evo", "trials", str(view.id), "--json", "--limit", "1000000"]
    command += ["--db", str(database_of(match, folder))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return TypeAdapter(list[TrialView]).validate_json(done.stdout)


def database_of(match: Match, folder: Path) -> Path:
    """Return the database of the search that `search` ran."""
    return _place(match, folder) / "bench.db"


def _place(match: Match, folder: Path) -> Path:
    return folder / match.name
