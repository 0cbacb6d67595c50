"""Searches whole spaces with modelled times from the default config: ``python -m tests.bench.strategy.enlarged``.

Recorded spaces are small: they have a few thousand configs of the important tunables. A family's whole space has about
10^18 points, and its best region can be reached only through slower configs. This benchmark searches the whole space.
The time of a config is the time of the nearest recorded config, multiplied by a factor for each tunable that was not
recorded and differs from its recorded value. The factors are synthetic, so the results compare strategies, not devices.
"""

import argparse
import hashlib
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from statistics import median

import numpy as np

from evo.device.estimate.target import known
from evo.promotion.policy import Policy
from evo.search.search import Budget, Search
from evo.space import Tunable
from evo.strategy import STRATEGIES, Context, build
from evo.trial import Config, Trial
from evo.trial.objective import Objective
from evo.trial.outcome import LaunchFailed, Measured, Outcome
from evo.trial.timing import Timing
from templates.registry import RECORDINGS, find
from tests.bench.recorded.reduced import definitions
from tests.bench.strategy.ground import Floats, Ground, load
from tests.bench.strategy.tables import table

SPACES = ("sdpa-64", "sdpa-192", "gemm")
"""Default recordings. The first recording was used for development, so its results are not independent."""

AHEAD = 3
"""Number of trials that are proposed while a trial is measured, because builds run in advance."""

PER_DIFFERENCE = 1.02
"""Factor of the time for each recorded tunable whose value differs from the nearest recorded config."""

SCATTER = 0.15
"""Standard deviation of the logarithms of factors. Factors are at least 1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Enlarged:
    """A family's whole space, with the recorded times of some of its configs.

    Attributes:
        columns: index of each recorded tunable among the tunables of the whole space.
        indices: for each recorded tunable, the index of the recorded value that represents each value of the whole
            space.
        names: for each recorded tunable, True if its values are unordered. A difference in such a tunable counts more
            than differences in all others.
        factors: for each tunable that was not recorded, the factor of each value.
    """

    ground: Ground
    search_space: "Context"
    columns: Sequence[int]
    indices: Sequence[np.ndarray]
    names: np.ndarray
    rows: np.ndarray
    factors: dict[int, Floats]

    def outcome(self, config: Config) -> Outcome:
        row = self.search_space.space.encode(config)
        recorded = np.array([indices[row[column]] for column, indices in zip(self.columns, self.indices, strict=True)])
        differ = self.rows != recorded
        distances = differ.sum(axis=1) + differ.shape[1] * (differ & self.names).sum(axis=1)
        nearest = np.flatnonzero(distances == distances.min())
        times_us = self.ground.times_us[nearest]
        times_us = times_us[np.isfinite(times_us)]
        if not len(times_us):
            return LaunchFailed(reason="all nearest recorded configs failed")
        factor = math.prod(float(factors[row[column]]) for column, factors in self.factors.items())
        differences = int(differ[nearest[0]].sum())
        time_us = float(np.median(times_us)) * factor * PER_DIFFERENCE**differences
        return Measured(timing=Timing(samples_us=(time_us,)))


@cache
def enlarged(name: str) -> Enlarged:
    """Return the whole space of the family of a recording."""
    definition = next(each for each in definitions() if each.name == name)
    family = find(definition.family).family
    space = family.space(family.problem(definition.problem, "cuda"), known("sm_90"), Objective())
    ground = load(RECORDINGS / f"h100-{name}.json.gz")
    recorded = {tunable.name: tunable for tunable in ground.space.tunables}
    whole = {tunable.name: tunable for tunable in space.tunables}
    return Enlarged(
        ground=ground,
        search_space=Context(space=space),
        columns=[space.names.index(each) for each in recorded],
        indices=[_nearest(whole[each.name], each) for each in recorded.values()],
        names=np.array([isinstance(each.values[0], str) for each in recorded.values()]),
        rows=np.array([ground.space.encode(ground.space.config(key)) for key in ground.keys]),
        factors={
            column: _factors(tunable) for column, tunable in enumerate(space.tunables) if tunable.name not in recorded
        },
    )


def _nearest(tunable: Tunable, recorded: Tunable) -> np.ndarray:
    """Return, for each value, the index of the equal or nearest recorded value."""
    found = []
    for value in tunable.values:
        if value in recorded.values:
            found.append(recorded.values.index(value))
        else:
            apart = [abs(math.log((float(value) + 0.5) / (float(each) + 0.5))) for each in recorded.values]
            found.append(int(np.argmin(apart)))
    return np.array(found)


def _factors(tunable: Tunable) -> Floats:
    """Return the factor of each value: 1 for the recorded default, and a constant pseudo-random factor otherwise."""
    found = np.ones(len(tunable.values))
    for index, value in enumerate(tunable.values):
        if index != tunable.default_index:
            seed = int(hashlib.sha256(f"{tunable.name}={value}".encode()).hexdigest()[:8], 16)
            found[index] = math.exp(abs(np.random.default_rng(seed).normal(0, SCATTER)))
    return found


@dataclass(frozen=True, kw_only=True)
class Run:
    """Result of one search.

    Attributes:
        ratios: best time after each trial, divided by the recorded optimum.
        proposal_ms: mean processor time of a proposal in ms.
    """

    ratios: Floats
    proposal_ms: float


def searched(strategy: str, trials: int, run: tuple[str, int]) -> Run:
    """Search a space, given by the name of its recording, with a seed."""
    name, seed = run
    ground = enlarged(name)
    space = ground.search_space.space
    search = Search(
        space=space, strategy=build(strategy, ground.search_space), budget=Budget(), policy=Policy(), seed=seed
    )
    pending: list[Trial] = []
    times_us, spent_s = np.full(trials, np.inf), 0.0
    for number in range(trials + AHEAD):
        begun_s = time.process_time()
        trial = search.ask() if number < trials else None
        spent_s += time.process_time() - begun_s
        pending += [] if trial is None else [trial]
        if pending and (len(pending) > AHEAD or trial is None):
            ended = pending.pop(0)
            outcome = ground.outcome(ended.config)
            search.tell(Trial(number=ended.number, proposal=ended.proposal, outcome=outcome))
            if isinstance(outcome, Measured):
                times_us[ended.number] = outcome.timing.median_us
    best = np.asarray(np.minimum.accumulate(times_us) / ground.ground.optimum_us)
    return Run(ratios=best, proposal_ms=1e3 * spent_s / trials)


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.strategy.enlarged", description=__doc__)
    parser.add_argument("--spaces", nargs="+", default=SPACES, help=f"recordings; default {' '.join(SPACES)}")
    parser.add_argument("--strategies", nargs="+", default=["portfolio"], choices=list(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=300)
    options = parser.parse_args(arguments)
    moments = [each for each in (50, 100, 150, 200, 300, 400) if each <= options.trials] or [options.trials]
    rows = []
    with ProcessPoolExecutor() as pool:
        for name in options.spaces:
            for strategy in options.strategies:
                runs = [(name, seed) for seed in range(options.seeds)]
                found = list(pool.map(partial(searched, strategy, options.trials), runs))
                middles = [f"{median(each.ratios[moment - 1] for each in found):.3f}" for moment in moments]
                spent_ms = sum(each.proposal_ms for each in found) / len(found)
                rows.append(
                    [name, strategy, *middles, f"{max(each.ratios[-1] for each in found):.3f}", f"{spent_ms:.0f}"]
                )
    heads = (f"after {each}" for each in moments)
    print(table(["space", "strategy", *heads, "worst after the last trial", "ms per proposal"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
