"""The contract between a search and whatever proposes its configs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from evo.space import Space
from evo.trial import Config, Proposal
from evo.trial.history import History


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a strategy is built from.

    Attributes:
        space: where to search.
        warm_starts: configs worth trying first (defaults, champions of nearby problems on this device, what a family's
            author measured), best guess first; valid ones. All the search builds on them.
        advice: configs that were fast elsewhere (on another device, by another tool's account), best guess first; valid
            ones. Two are tried first, the others unless they are refuted; what the search loses by them is bounded.
    """

    space: Space
    warm_starts: Sequence[Config] = ()
    advice: Sequence[Config] = ()


class Strategy(Protocol):
    """Proposes configs: the *ask* of ask/tell; the *tell* is the history growing.

    Contract, enforced for each strategy by ``tests/unit/test_strategy_conformance.py``:
      * every proposal is valid and was never asked before; `propose` returns None only when no such config is left;
      * same context, same history and same generator state give the same proposal, also from a fresh instance that
        sees the history for the first time (caches are allowed, memory is not);
      * an outcome that is not a measurement is information about the config, never a time; Abandoned, Cancelled
        and ReferenceFailed are no information at all;
      * not thread-safe; never keeps or changes the history it is handed.
    """

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        """The next config to try, or None when the space is exhausted."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A strategy that would rather have some of many workers wait than say blindly what they should try.

    Contract: a pure function of the history, at least 1; it may only grow, or go, as trials end.
    """

    def most_pending(self, history: History) -> int | None:
        """How many trials it wants under way at once for now; None: as many as there are workers for."""
        ...


MARKED: dict[str, Callable[[Context], Strategy]] = {}
"""Strategies that were marked by `strategy`, by name."""

_Factory = TypeVar("_Factory", bound=Callable[[Context], Strategy])


def strategy(name: str) -> Callable[[_Factory], _Factory]:
    """Mark a class as the strategy of this name.

    Raises:
        ValueError: another class has the name.
    """

    def mark(factory: _Factory) -> _Factory:
        if name in MARKED:
            raise ValueError(f"two strategies are named {name!r}")
        MARKED[name] = factory
        return factory

    return mark
