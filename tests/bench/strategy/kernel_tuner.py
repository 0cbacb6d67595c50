"""Kernel Tuner's strategies as contestants on recorded spaces, with any number of workers.

A replaying runner is used instead of Kernel Tuner's simulation mode, which reads the cache file again for each run and
evaluates no configs in parallel. Strategies, cost function, search space and budget are those of Kernel Tuner. Configs
that a strategy submits together are evaluated in parallel, as with its parallel runner. Strategies that submit one
config at a time use one worker.
"""

import hashlib
import heapq
import random
import time
from collections import defaultdict
from contextlib import suppress
from copy import copy
from functools import lru_cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.simulate import PROTOCOL

STRATEGIES: dict[str, dict[str, Any]] = {
    "adaptive_tabu_greywolf": {},
    "hybrid_vndx": {},
    "genetic_algorithm": {"popsize": 20},
    "simulated_annealing": {},
}
"""Options that differ from their defaults, by strategy. With a seed, all strategies are deterministic."""

PARALLEL = ("genetic_algorithm",)
"""Strategies that submit several configs together."""

PLANNED = 200
MOST_ASKS = 20_000
"""Number of proposals, including repetitions, after which a strategy counts as finished."""


def contestants() -> list[Contestant]:
    """Return the contestants. There are none if Kernel Tuner is not installed."""
    if not find_spec("kernel_tuner"):
        return []
    source = Path(__file__).read_bytes()
    digest = hashlib.sha256(f"{PROTOCOL} kernel_tuner {version('kernel_tuner')} ".encode() + source).hexdigest()[:12]
    return [
        Contestant(name=f"Kernel Tuner {name}", digest=digest, play=partial(_play, name), parallel=name in PARALLEL)
        for name in STRATEGIES
    ]


def planned(course: Course) -> int:
    """Return the number of evaluations that a strategy may plan with, e.g. for its cooling schedule."""
    return max(course.trials, PLANNED)


def _play(name: str, ground: Ground, seed: int, course: Course) -> Run:
    import kernel_tuner.interface as tuner
    from kernel_tuner.util import StopCriterionReached

    random.seed(seed)
    np.random.seed(seed)
    replay, searchspace = Replay(ground, course), _fresh(_searchspace(ground))
    options = tuner.Options(
        objective=["time"],
        objective_higher_is_better=[False],
        strategy_options=tuner.Options({**STRATEGIES[name], "max_fevals": planned(course)}),
        budget=Budget(replay),
        verbose=False,
        seed=seed,
        cache={},
        tune_params=searchspace.tune_params,
    )
    replay.resume()
    with suppress(StopCriterionReached):
        tuner.strategy_map[name].tune(searchspace, replay, options)
    return replay.played()


class Replay:
    """Replaces Kernel Tuner's runner: looks up results, and counts the simulated time."""

    def __init__(self, ground: Ground, course: Course) -> None:
        self._ground = ground
        self._course = course
        self._now_s = 0.0
        self._since = 0.0
        self._known: set[int] = set()
        self._done: list[tuple[float, int]] = []
        self._asking_s: list[float] = []
        self._asks = 0

    def resume(self) -> None:
        """Start to count the strategy's processor time again after a batch."""
        self._since = time.process_time()

    def played(self) -> Run:
        """Return the evaluations so far."""
        done = sorted(self._done)
        return Run(
            places=[place for _, place in done],
            ended_s=[ended_s for ended_s, _ in done],
            asking_s=self._asking_s,
            asks=self._asks,
        )

    def run(self, elements: Any, options: Any) -> list[dict[str, Any] | None]:
        """Return the results of a batch, like Kernel Tuner's runners; None for configs beyond the budget."""
        self._think()
        results = [self._result(tuple(element), options) for element in self._side_by_side(elements)]
        self.resume()
        return results

    def add_strategy_time(self, seconds: float) -> None:
        """Do nothing, because `Replay` measures the strategy's processor time."""

    def available_parallelism(self) -> int:
        return self._course.workers

    @property
    def over(self) -> bool:
        course, count = self._course, len(self._done)
        if course.goal is not None and count and self._hit(course.goal):
            return True
        return self._asks > MOST_ASKS or (count >= course.trials and self._now_s >= course.until_s)

    @property
    def fraction(self) -> float:
        return min(1.0, len(self._done) / planned(self._course))

    def _think(self) -> None:
        spent_s = time.process_time() - self._since
        self._asking_s.append(spent_s)
        if self._course.clock == "recorded":
            self._now_s += spent_s

    def _side_by_side(self, elements: Any) -> Any:
        """Evaluate the configs in parallel on the workers, and set the clock to the end of the last evaluation."""
        self._idle = [self._now_s] * self._course.workers
        yield from elements
        self._now_s = max(self._now_s, *self._idle)

    def _result(self, element: tuple[Any, ...], options: Any) -> dict[str, Any] | None:
        from kernel_tuner.util import InvalidConfig, RuntimeFailedConfig

        if self.over:
            return None
        self._asks += 1
        result = dict(zip(self._ground.space.names, element, strict=True))
        place = self._ground.place(result)
        if place is None:
            return {**result, "__error__": InvalidConfig()}
        if place not in self._known:
            self._evaluate(place)
        time_us = float(self._ground.times_us[place])
        if np.isfinite(time_us):
            return {**result, "time": time_us / 1e3}
        return {**result, "__error__": RuntimeFailedConfig()}

    def _evaluate(self, place: int) -> None:
        self._known.add(place)
        cost_s = 1.0 if self._course.clock == "steps" else float(self._ground.costs_s[place])
        ended_s = heapq.heappop(self._idle) + cost_s
        heapq.heappush(self._idle, ended_s)
        self._done.append((ended_s, place))
        if self._course.workers == 1:
            self._now_s = ended_s

    def _hit(self, goal: float) -> bool:
        return bool(self._ground.times_us[self._done[-1][1]] <= goal * self._ground.optimum_us)


class Budget:
    """Replaces Kernel Tuner's budget. It is exhausted at the end of the course."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self.time_limit = None
        self.max_fevals = planned(replay._course)

    def is_done(self) -> bool:
        return self._replay.over

    def raise_exception_if_done(self) -> None:
        from kernel_tuner.util import StopCriterionReached

        if self._replay.over:
            raise StopCriterionReached("the budget of the course is used up")

    def get_fraction_consumed(self) -> float:
        return self._replay.fraction

    def get_evaluations_spent(self) -> int:
        return len(self._replay._done)

    def get_evaluations_remaining(self) -> int:
        return max(0, self.max_fevals - len(self._replay._done))

    def add_evaluations(self, n: int = 1) -> None:
        """Do nothing, because `Replay` counts the evaluations."""


def _fresh(searchspace: Any) -> Any:
    """Return the space without cached neighbours, so that a run does not depend on earlier runs."""
    fresh = copy(searchspace)
    methods = tuple(fresh._Searchspace__neighbor_cache)
    fresh._Searchspace__neighbor_cache = {method: {} for method in methods}
    fresh._Searchspace__neighbor_partial_cache = {method: defaultdict(list) for method in methods}
    return fresh


@lru_cache(maxsize=8)
def _searchspace(ground: Ground) -> Any:
    from kernel_tuner.searchspace import Searchspace

    document = {
        "tune_params": {each.name: list(each.values) for each in ground.space.tunables},
        "cache": {key: dict(entry.config) for key, entry in zip(ground.keys, ground.entries, strict=True)},
    }
    return Searchspace(None, None, None, from_cache=document)
