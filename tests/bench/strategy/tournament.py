"""Runs the matches that the archive lacks, in several processes."""

import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.strategy import forest, kernel_tuner, optuna_study, ours, smac_forest
from tests.bench.strategy.archive import Archive
from tests.bench.strategy.ground import load
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run

FOREIGN = (kernel_tuner, optuna_study, forest, smac_forest)

CHUNK = 5
"""Number of seeds that a process runs before it returns their runs."""

SHARES = {
    "tpe": 0.1,
    "Optuna TPE, repeats cost": 0.05,
    "Optuna CMA-ES": 0.5,
    "Optuna GP": 0.5,
    smac_forest.NAME: 0.3,
}
"""Fraction of the seeds for contestants with slow proposals. Their runs take a second to a minute."""

BRIEF = {"Optuna GP", smac_forest.NAME}
"""Slow contestants, whose runs end after the scored evaluations, because longer runs would take too much time."""


@dataclass(frozen=True, kw_only=True)
class Match:
    """Runs of a contestant on a space, with `seeds` seeds."""

    contestant: str
    path: Path
    course: Course
    seeds: tuple[int, ...]


def contestants() -> dict[str, Contestant]:
    """Return all available contestants by name: built-in strategies, variants, steps, and other tuners."""
    own = [*ours.contestants(), *ours.crowded(), *ours.variants(), *ours.steps()]
    foreign = [each for module in FOREIGN for each in module.contestants()]
    everybody = [*own, *foreign]
    return {each.name: replace(each, share=SHARES.get(each.name, 1.0), brief=each.name in BRIEF) for each in everybody}


def play(archive: Archive, matches: Iterable[Match], processes: int) -> None:
    """Run the matches and store their runs in the archive. Progress is printed to standard error."""
    known = contestants()
    chunks = [
        replace(match, seeds=missing[start : start + CHUNK])
        for match in matches
        for missing in [_missing(archive, known[match.contestant], match)]
        for start in range(0, len(missing), CHUNK)
    ]
    # the matches alternate, so that an interrupted benchmark has runs of all of them
    chunks.sort(key=lambda chunk: chunk.seeds)
    if not chunks:
        return
    begun = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=50) as pool:
        for done, (match, runs) in enumerate(pool.imap_unordered(_played, chunks), 1):
            archive.keep(known[match.contestant], load(match.path), match.course, runs)
            _tell(f"{done}/{len(chunks)} after {time.monotonic() - begun:.0f} s: {match.contestant}, {match.path.stem}")
    _tell("")


def _missing(archive: Archive, contestant: Contestant, match: Match) -> tuple[int, ...]:
    there = archive.runs(contestant, load(match.path), match.course)
    return tuple(seed for seed in match.seeds if seed not in there)


def _played(match: Match) -> tuple[Match, Sequence[tuple[int, Run]]]:
    ground, contestant = load(match.path), contestants()[match.contestant]
    return match, [(seed, contestant.play(ground, seed, match.course)) for seed in match.seeds]


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text:.110}", end="" if text else "\n", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr, flush=True)
