"""SMAC3's random-forest search (`HyperparameterOptimizationFacade`) as a contestant on recorded spaces.

SMAC does not support constraints like those of kernels, and in the reduced Hopper spaces only 0.4 % of the points are
valid. Therefore the initial design consists of random valid configs. The acquisition function (expected improvement by
the forest) is maximised only over valid configs: over all of them, or over `CHALLENGERS` random ones in larger spaces.
Both changes are in favour of SMAC. All remaining settings are SMAC's defaults.
"""

import hashlib
import tempfile
import warnings
from functools import lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.simulate import PROTOCOL, Simulation

NAME = "SMAC3 random forest"
FIRST = 20
CHALLENGERS = 5_000
PENALTY = 1.5
"""A failed config is reported with this factor times the worst time so far, as for Optuna's samplers."""

MOST_TRIALS = 100_000


class SmacPlayer:
    """One optimisation with SMAC's ask-and-tell interface."""

    full = False

    def __init__(self, ground: Ground, seed: int, folder: str) -> None:
        self._ground = ground
        self._pending: dict[int, Any] = {}
        self._worst_us = 0.0
        self._smac = _facade(ground, seed, folder)
        self._known: set[int] = set()
        self.asks = 0

    def ask(self) -> int | None:
        while self.asks < MOST_TRIALS:
            self.asks += 1
            info = self._smac.ask()
            names = self._ground.space.tunables
            config = {each.name: each.values[int(info.config[each.name])] for each in names}
            place = self._ground.place(config)
            if place is not None and place not in self._known:
                self._known.add(place)
                self._pending[place] = info
                return place
            self._report(info, PENALTY * self._worst_us)
        return None

    def tell(self, place: int) -> None:
        time_us = float(self._ground.times_us[place])
        failed = not np.isfinite(time_us)
        self._worst_us = self._worst_us if failed else max(self._worst_us, time_us)
        self._report(self._pending.pop(place), PENALTY * self._worst_us if failed else time_us)

    def _report(self, info: Any, cost: float) -> None:
        from smac.runhistory.dataclasses import TrialValue

        self._smac.tell(info, TrialValue(cost=cost))


@lru_cache(maxsize=2)
def _space(ground: Ground) -> tuple[Any, list[Any]]:
    """Return SMAC's form of the recorded space, and its valid configs by index in the recording."""
    from ConfigSpace import CategoricalHyperparameter, Configuration, ConfigurationSpace, OrdinalHyperparameter

    space = ConfigurationSpace()
    for each in ground.space.tunables:
        indices = list(range(len(each.values)))
        space.add((OrdinalHyperparameter if each.ordinal else CategoricalHyperparameter)(each.name, indices))
    rows = [ground.space.encode(entry.config).tolist() for entry in ground.entries]
    return space, [Configuration(space, dict(zip(ground.space.names, row, strict=True))) for row in rows]


def _facade(ground: Ground, seed: int, folder: str) -> Any:
    from smac import HyperparameterOptimizationFacade as Facade
    from smac import Scenario
    from smac.acquisition.maximizer import AbstractAcquisitionMaximizer

    space, valid = _space(ground)
    rng = np.random.default_rng(seed)

    class OfValidConfigs(AbstractAcquisitionMaximizer):
        def _maximize(self, previous_configs: list[Any], n_points: int) -> list[tuple[float, Any]]:
            known = set(previous_configs)
            drawn = rng.choice(len(valid), min(CHALLENGERS, len(valid)), replace=False)
            new = [valid[place] for place in drawn if valid[place] not in known]
            worth = np.asarray(self._acquisition_function(new)).ravel()
            return [(float(worth[place]), new[place]) for place in np.argsort(-worth, kind="stable")]

    scenario = Scenario(
        space, deterministic=True, n_trials=MOST_TRIALS, seed=seed, output_directory=Path(folder), n_workers=1
    )
    begun = [valid[place] for place in rng.choice(len(valid), min(FIRST, len(valid)), replace=False)]
    return Facade(
        scenario,
        lambda config, seed=0: 0.0,  # SMAC calls no target function, because the results are reported
        initial_design=Facade.get_initial_design(scenario, n_configs=0, additional_configs=begun),
        intensifier=Facade.get_intensifier(scenario, max_config_calls=1),
        acquisition_maximizer=OfValidConfigs(space, seed=seed),
        random_design=Facade.get_random_design(
            scenario, probability=0.0
        ),  # SMAC would draw random configs that violate constraints
        logging_level=False,
        overwrite=True,
    )


def contestants() -> list[Contestant]:
    """Return the contestant. There is none if SMAC is not installed."""
    if not find_spec("smac"):
        return []
    source = Path(__file__).read_bytes()
    digest = hashlib.sha256(f"{PROTOCOL} smac {version('smac')} ".encode() + source).hexdigest()[:12]
    return [Contestant(name=NAME, digest=digest, play=_play, parallel=False)]


def _play(ground: Ground, seed: int, course: Course) -> Run:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory(prefix="bench-smac-") as folder:
        warnings.simplefilter("ignore")
        return Simulation(ground, SmacPlayer(ground, seed, folder), course).play()
