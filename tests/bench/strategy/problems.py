"""Measures how results of similar problems help in the search of each recorded attention problem.

The results are from searches of `LOGGED` trials. *Opposite* results are misleading: the fastest config gets the slowest
time, the second fastest config gets the second slowest time, and so on.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from evo.device import Device
from evo.device.estimate.target import known
from evo.family.problem import distance
from evo.strategy import STRATEGIES, Context, Strategy
from evo.strategy.parts.transfer import Earlier, predicted
from evo.trial.objective import Objective
from templates.recorded import shipped
from templates.registry import RECORDINGS
from tests.bench.strategy.ground import Ground, load
from tests.bench.strategy.ours import OurPlayer
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.simulate import Simulation

FAMILY, NAMES = "sdpa", ("h100-sdpa-128", "h100-sdpa-192", "h100-sdpa-64")
LOGGED, TRIALS = 100, 100
PREDICTED = 5
"""Number of predicted configs that a search gets as advice. A service gives the same number."""

MOMENTS = (3, 5, 10, 20, 50, TRIALS)
NOTHING_YET = 10.0
"""Ratio of time to optimum that counts for a search before its first measurement."""


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Best time divided by the optimum, by number of trials.

    Attributes:
        means: geometric means over problems and seeds after the numbers of trials in `MOMENTS`.
        worst: largest ratio of all runs after the last trial.
    """

    means: Sequence[float]
    worst: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Place:
    """A recorded problem with its space and all results."""

    ground: Ground
    whole: Earlier


Ways = dict[str, Callable[[Place, Sequence[Earlier]], Context]]


def nothing(here: Place, others: Sequence[Earlier]) -> Context:
    return Context(space=here.ground.space)


def champions(here: Place, others: Sequence[Earlier]) -> Context:
    """Return a context whose warm starts are the fastest valid configs of the problems in `others`."""
    best = [min(each.results, key=lambda result: result[1])[0] for each in others]
    default = here.ground.space.default()
    configs = [{name: each.get(name, default[name]) for name in here.ground.space.names} for each in best]
    return Context(space=here.ground.space, warm_starts=[each for each in configs if each in here.ground.space])


def advised(here: Place, others: Sequence[Earlier]) -> Context:
    """Return the context of `champions` with predicted configs as advice, like the service."""
    configs = predicted(here.ground.space, here.whole.problem, others, PREDICTED)
    return replace(champions(here, others), advice=configs)


def misled(here: Place, others: Sequence[Earlier]) -> Context:
    """Return a context with advice that is predicted from opposite results."""
    configs = predicted(here.ground.space, here.whole.problem, [opposite(each) for each in others], PREDICTED)
    return Context(space=here.ground.space, advice=configs)


WAYS: Ways = {
    "without other problems": nothing,
    "their champions": champions,
    "champions of other problems, and predictions as advice": advised,
    "predictions from opposite results": misled,
}


def opposite(earlier: Earlier) -> Earlier:
    """Return the configs with their times in opposite order: the slowest config gets the shortest time, and so on."""
    ranked = sorted(earlier.results, key=lambda result: result[1])
    times_us = [time_us for _, time_us in reversed(ranked)]
    pairs = zip(ranked, times_us, strict=True)
    return replace(earlier, results=[(config, time_us) for (config, _), time_us in pairs])


def compare(strategy: str, seeds: int) -> dict[str, Descent]:
    """Search with each kind of context, and return the results by kind."""
    places = _places()
    curves: dict[str, list[np.ndarray]] = {name: [] for name in WAYS}
    for seed in range(seeds):
        logs = [_log(place, strategy, seed + seeds) for place in places]
        for here in places:
            others = [log for place, log in zip(places, logs, strict=True) if place is not here]
            others.sort(key=lambda each: distance(here.whole.problem, each.problem))
            for name, way in WAYS.items():
                run = _play(here.ground, strategy, way(here, others), seed, TRIALS)
                curves[name].append(run.best_us(here.ground, TRIALS) / here.ground.optimum_us)
    return {name: _descent(np.minimum(found, NOTHING_YET)) for name, found in curves.items()}


def _descent(curves: np.ndarray) -> Descent:
    means = np.exp(np.log(curves).mean(axis=0))
    at = [float(means[min(moment, len(means)) - 1]) for moment in MOMENTS]
    return Descent(means=at, worst=float(curves[:, -1].max()))


@cache
def _places() -> list[Place]:
    """Return the recorded problems, in the order of `NAMES`."""
    found = shipped(FAMILY, _device(), Objective())
    return [
        Place(ground=load(RECORDINGS / f"{name}.json.gz"), whole=whole)
        for name, whole in zip(NAMES, found, strict=True)
    ]


def _device() -> Device:
    return replace(known("sm_90"), kind="cuda", model="NVIDIA H100 80GB HBM3")


def _log(place: Place, strategy: str, seed: int) -> Earlier:
    """Return the results of one search of a recorded problem."""
    ground = place.ground
    whole = {
        ground.space.key({name: config[name] for name in ground.space.names}): (config, time_us)
        for config, time_us in place.whole.results
    }
    run = _play(ground, strategy, Context(space=ground.space), seed, LOGGED)
    keys = [ground.keys[each] for each in run.places]
    return replace(place.whole, results=[whole[key] for key in keys if key in whole])


def _play(ground: Ground, strategy: str, context: Context, seed: int, trials: int) -> Run:
    def build(_: Context) -> Strategy:
        return STRATEGIES[strategy](context)

    return Simulation(ground, OurPlayer(ground, build, seed), Course(clock="steps", trials=trials)).play()
