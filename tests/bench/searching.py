"""What a contest begins with: the search a user would start, as a command of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from evo.messages.view import SearchView, TrialView


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

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.family}-{self.problem}-{self.cache}-{self.launch}"


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is tried.

    Attributes:
        trials, minutes: budget of the search.
        sample: configs drawn from the whole space at random; with 0 the middle one takes no part.
        rounds: interleaved samples of every contestant; half as many in the cache mode that does not rank.
        device: kind of device, ``cpu`` or ``cuda``.
        from_default: whether searches begin with the default alone.
        champions: folder that keeps what searches found; where it has a contest's champion, that is compared again.
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
    return folder / match.name
