"""Built-in strategies of `evo.strategy`, and variants of the default strategy."""

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path

from evo.promotion.policy import Policy
from evo.search.search import Budget, Search
from evo.strategy import STRATEGIES, Context, Strategy
from evo.trial import Trial
from tests.bench.strategy.ground import Ground
from tests.bench.strategy.player import Contestant
from tests.bench.strategy.run import Course, Run
from tests.bench.strategy.simulate import PROTOCOL, Simulation
from tests.bench.strategy.sources import sources
from tests.bench.strategy.variants import CROWDED, STEPS, VARIANTS

DECIDES = ("evo.search.search", "evo.strategy")
"""Modules that affect proposals. The digest also includes all modules that they import."""

LIBRARIES = ("numpy", "scipy", "optuna")
"""Packages whose arithmetic or random numbers affect proposals."""


class OurPlayer:
    """A player that uses a `Search` in memory."""

    def __init__(self, ground: Ground, factory: Callable[[Context], Strategy], seed: int) -> None:
        strategy = factory(Context(space=ground.space))
        self._ground = ground
        self._search = Search(space=ground.space, strategy=strategy, budget=Budget(), policy=Policy(), seed=seed)
        self._pending: dict[int, Trial] = {}
        self.asks = 0

    @property
    def full(self) -> bool:
        return self._search.full

    def ask(self) -> int | None:
        trial = self._search.ask()
        if trial is None:
            return None
        self.asks += 1
        place = self._ground.places[self._ground.space.key(trial.config)]
        self._pending[place] = trial
        return place

    def tell(self, place: int) -> None:
        trial = self._pending.pop(place)
        outcome = self._ground.entries[place].outcome
        self._search.tell(Trial(number=trial.number, proposal=trial.proposal, outcome=outcome))


def contestants() -> list[Contestant]:
    """Return the built-in strategies as contestants."""
    digest = _digest()
    return [_contestant(name, digest, factory) for name, factory in STRATEGIES.items()]


def variants() -> list[Contestant]:
    """Return variants of the default strategy with one component removed or replaced."""
    return _of_variants(VARIANTS)


def steps() -> list[Contestant]:
    """Return the default strategy with one component, with two components, and so on."""
    return _of_variants({name: factory for name, (_, factory) in STEPS.items()})


def _of_variants(factories: Mapping[str, Callable[[Context], Strategy]]) -> list[Contestant]:
    digest = _digest(Path(__file__).with_name("variants.py"))
    return [_contestant(name, digest, factory) for name, factory in factories.items()]


def crowded() -> list[Contestant]:
    """Return variants without a component that matters only with many workers."""
    return _of_variants(CROWDED)


def _contestant(name: str, digest: str, factory: Callable[[Context], Strategy]) -> Contestant:
    return Contestant(name=name, digest=digest, play=partial(_play, factory))


def _play(factory: Callable[[Context], Strategy], ground: Ground, seed: int, course: Course) -> Run:
    return Simulation(ground, OurPlayer(ground, factory, seed), course).play()


def _digest(*more: Path) -> str:
    whole = hashlib.sha256(repr([PROTOCOL, *((name, version(name)) for name in LIBRARIES)]).encode())
    for path in (*sources(*DECIDES), Path(__file__), *more):
        whole.update(path.name.encode() + path.read_bytes())
    return whole.hexdigest()[:12]
