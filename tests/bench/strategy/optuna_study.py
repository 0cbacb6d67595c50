"""Optuna's samplers with a plain study, which learns that a config is invalid only by proposing it.

A config that violates a constraint, or was proposed before, costs no evaluation: a result is reported to the sampler,
which then proposes again. A violation is reported as 1.5 times the worst time so far, because most samplers keep
proposing configs that are reported as failed. A repetition is reported either like a violation or with its time. Both
ways are compared.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from evo.space import Tunable
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.simulate import PROTOCOL, Simulation

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

PENALTY = 1.5
FIRST_PENALTY = 1e9
"""Microseconds reported for a rejection before anything was measured."""

PATIENCE = 300
"""Consecutive rejections after which a sampler counts as finished."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """A sampler, with options for its use.

    Attributes:
        sampler: returns the sampler for a seed.
        ordered: True if value indices of ordinal tunables are sampled as integers, not as unordered choices.
        repeats_cost: True if a repetition is reported like a violation.
    """

    sampler: "Callable[[int], BaseSampler]"
    ordered: bool = True
    repeats_cost: bool = True


class StudyPlayer:
    """A player that asks an Optuna study for configs."""

    full = False

    def __init__(self, ground: Ground, entrant: Entrant, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._ground = ground
        self._repeats_cost = entrant.repeats_cost
        self._study = optuna.create_study(sampler=entrant.sampler(seed))
        self._distributions = {each.name: _distribution(each, entrant.ordered) for each in ground.space.tunables}
        self._known: set[int] = set()
        self._pending: dict[int, Trial] = {}
        self._worst_us: float | None = None
        self.asks = 0

    def ask(self) -> int | None:
        for _ in range(PATIENCE):
            self.asks += 1
            trial = self._study.ask(self._distributions)
            config = {each.name: each.values[int(trial.params[each.name])] for each in self._ground.space.tunables}
            place = self._ground.place(config)
            if place is not None and place not in self._known:
                self._known.add(place)
                self._pending[place] = trial
                return place
            again = place is not None and place not in self._pending and not self._repeats_cost
            self._study.tell(trial, self._value(place) if again else self._value(None))
        return None

    def tell(self, place: int) -> None:
        time_us = float(self._ground.times_us[place])
        if time_us < float("inf"):
            self._worst_us = max(self._worst_us or 0.0, time_us)
        self._study.tell(self._pending.pop(place), self._value(place))

    def _value(self, place: int | None) -> float:
        """Return the time to report for a config, or a penalty if it failed or is invalid (`place` is None)."""
        time_us = float("inf") if place is None else float(self._ground.times_us[place])
        if time_us < float("inf"):
            return time_us
        return FIRST_PENALTY if self._worst_us is None else PENALTY * self._worst_us


def contestants() -> list[Contestant]:
    """Return the contestants, except those whose packages are not installed."""
    found = [
        _contestant("Optuna TPE", Entrant(sampler=_tpe, ordered=False, repeats_cost=False)),
        _contestant("Optuna TPE, repeats cost", Entrant(sampler=_tpe, ordered=False)),
    ]
    if find_spec("cmaes"):
        found.append(_contestant("Optuna CMA-ES", Entrant(sampler=_cma_es)))
    if find_spec("torch"):
        found.append(_contestant("Optuna GP", Entrant(sampler=_gp), parallel=False))
    return found


def _tpe(seed: int) -> "BaseSampler":
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed)


def _cma_es(seed: int) -> "BaseSampler":
    from optuna.samplers import CmaEsSampler

    return CmaEsSampler(seed=seed)


def _gp(seed: int) -> "BaseSampler":
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed)


def _distribution(tunable: Tunable, ordered: bool) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, IntDistribution

    indices = range(len(tunable.values))
    return IntDistribution(0, len(indices) - 1) if ordered and tunable.ordinal else CategoricalDistribution(indices)


def _contestant(name: str, entrant: Entrant, *, parallel: bool = True) -> Contestant:
    source = Path(__file__).read_bytes()
    digest = hashlib.sha256(f"{PROTOCOL} optuna {version('optuna')} ".encode() + source).hexdigest()[:12]
    return Contestant(name=name, digest=digest, play=partial(_play, entrant), parallel=parallel)


def _play(entrant: Entrant, ground: Ground, seed: int, course: Course) -> Run:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna warns of experimental samplers and of tunables with one value
        return Simulation(ground, StudyPlayer(ground, entrant, seed), course).play()
