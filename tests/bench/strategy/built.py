"""Measures how build resources help to rank configs before timing: ``python -m tests.bench.strategy.built``.

Recorded searches are replayed in order. A surrogate learns from the first trials, with and without the build resources
(registers, shared memory, …) as additional axes. It then ranks the following trials in groups of eight, which simulates
a worker that builds eight configs for each measured config. The compared result is the time of the config that is
ranked first.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.space import Space, Tunable
from evo.strategy.parts.coordinates import Coordinates, Points
from evo.strategy.parts.gaussian_process import Flags, Floats, Posterior, fit
from evo.strategy.parts.surrogate import TRAINED, slowness
from tests.bench.strategy.ground import SPACES

FOLDER = SPACES.parent / "built"

FIRST, NEXT, STRIDE = 40, 32, 24
"""Numbers of trials: the minimum for learning, the trials ranked afterwards, and the increment for learning."""

BUILT, DRAWS = 8, 60
"""Number of configs per group, and number of groups that are drawn from the ranked configs."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """Measured trials in the order in which they ended.

    Attributes:
        points: coordinates of the configs, shape (n, coordinates).
        names: True for coordinates with names as values; shape (coordinates,).
        figures: build resources that vary, each scaled logarithmically to 0..1; shape (n, resources).
    """

    name: str
    points: Points
    names: Flags
    figures: Points
    times_us: Floats


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Effect of build resources on the time of the config that is ranked first of eight.

    Attributes:
        ratio: time with build resources divided by time without them. Below 1, build resources help.
        error: standard error of the logarithm of the ratio over the positions in the log; None for a single position.
    """

    ratio: float
    error: float | None


def load(path: Path) -> Log:
    """Read a file of `FOLDER`."""
    document = json.loads(gzip.decompress(path.read_bytes()))
    names, trials = document["tunables"], document["trials"]
    columns = list(zip(*trials, strict=True))
    tunables = [
        Tunable(name=name, values=tuple(sorted(set(column)))) for name, column in zip(names, columns, strict=False)
    ]
    space = Space(tunables)
    rows = np.array([space.encode(dict(zip(names, trial, strict=False))) for trial in trials])
    coordinates = Coordinates(space)
    figures = np.log1p(np.array(columns[len(names) : -1], dtype=np.float64))
    spans = np.ptp(figures, axis=1)
    figures = (figures - figures.min(axis=1, keepdims=True))[spans > 0] / spans[spans > 0, None]
    return Log(
        name=path.name.removesuffix(".json.gz"),
        points=coordinates.of(rows),
        names=coordinates.names,
        figures=figures.T,
        times_us=np.array(columns[-1]),
    )


def gain(log: Log) -> Gain:
    """Return the mean ratio over positions in the log. The surrogate learns from the trials before a position."""
    whole = np.concatenate([log.points, log.figures], axis=1)
    names = np.append(log.names, np.zeros(log.figures.shape[1], dtype=np.bool_))
    known = range(FIRST, len(log.times_us) - NEXT + 1, STRIDE)
    apart = [_chosen(log, whole, names, count) - _chosen(log, log.points, log.names, count) for count in known]
    error = float(np.std(apart, ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else None
    return Gain(ratio=float(np.exp(np.mean(apart))), error=error)


def _chosen(log: Log, points: Points, names: Flags, count: int) -> float:
    """Return the mean log time of the config ranked first after learning from `count` trials."""
    known = np.argsort(log.times_us[:count])[:TRAINED]
    values = slowness(log.times_us[known])
    judged = slice(count, count + NEXT)
    slow = Posterior(fit(points[known], values, names), points[known], values).mean(points[judged])
    rng = np.random.default_rng(count)
    drawn = np.array([rng.choice(NEXT, BUILT, replace=False) for _ in range(DRAWS)])
    best = drawn[np.arange(DRAWS), slow[drawn].argmin(axis=1)]
    return float(np.log(log.times_us[judged][best]).mean())


def main() -> None:
    print(
        "| search | trials | time of the first-ranked of eight, with / without build resources |\n| --- | ---: | ---: |"
    )
    for path in sorted(FOLDER.glob("*.json.gz")):
        log = load(path)
        found = gain(log)
        error = "" if found.error is None else f" ± {found.error:.3f}"
        print(f"| {log.name} | {len(log.times_us)} | {found.ratio:.3f}{error} |", flush=True)


if __name__ == "__main__":
    main()
