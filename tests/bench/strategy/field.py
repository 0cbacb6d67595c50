"""Collects the runs of a comparison by contestant and space."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.bench.strategy.archive import Archive
from tests.bench.strategy.ground import Floats, Ground, load
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.tournament import Match, play


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Extent of a comparison, and the archive of runs.

    Attributes:
        seeds: number of runs of each contestant on each space. Slow contestants run only a share of them.
        processes: number of processes. With 0, only stored runs are read.
        share: fraction of the gap to the optimum that random search has closed at the end of the time axis.
    """

    archive: Archive
    paths: Sequence[Path]
    seeds: int
    processes: int
    share: float

    @property
    def grounds(self) -> list[Ground]:
        return [load(path) for path in self.paths]


@dataclass(frozen=True, kw_only=True)
class Field:
    """Runs by contestant, and by space in the order of `grounds`. Contestants have at least two runs on each space."""

    grounds: Sequence[Ground]
    runs: Mapping[str, Sequence[Sequence[Run]]]

    def curves(self, name: str, curve: Callable[[int, Run], Floats]) -> list[Floats]:
        """Return one array per space, with seeds on the first axis. `curve` gets the space's index and a run."""
        return [np.array([curve(index, run) for run in runs]) for index, runs in enumerate(self.runs[name])]


def gather(effort: Effort, contestants: Sequence[Contestant], course: Callable[[Ground], Course]) -> Field:
    """Return all runs of the contestants. Runs that are missing from the archive are executed first.

    Without processes, only contestants with all runs are returned.
    """
    grounds = effort.grounds
    wanted = {each.name: tuple(range(max(2, round(effort.seeds * each.share)))) for each in contestants}
    if effort.processes:
        matches = [
            Match(contestant=each.name, path=path, course=course(ground), seeds=wanted[each.name])
            for each in contestants
            for path, ground in zip(effort.paths, grounds, strict=True)
        ]
        play(effort.archive, matches, effort.processes)
    runs = {}
    for each in contestants:
        kept = [effort.archive.runs(each, ground, course(ground)) for ground in grounds]
        seeds = [seed for seed in wanted[each.name] if all(seed in found for found in kept)]
        if len(seeds) > 1:
            runs[each.name] = [[found[seed] for seed in seeds] for found in kept]
    return Field(grounds=grounds, runs=runs)
