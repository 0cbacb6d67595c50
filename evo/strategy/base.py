"""Contract between a search and the strategies that propose its configs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from evo.plugins import mark
from evo.space import Space
from evo.trial import Config, Proposal
from evo.trial.history import History


@dataclass(frozen=True, kw_only=True)
class Context:
    """The input from which a strategy is built.

    Attributes:
        space: the space to search.
        warm_starts: configs worth trying first (defaults, champions of similar problems on this device, the author's
            measured configs), best guess first; all valid. Their results influence all later proposals.
        advice: configs that were fast elsewhere (on another device, or according to another tool), best guess first;
            all valid. Two of them are tried first, and the remaining ones unless the advice is refuted. The number of
            trials that advice can waste is limited.
    """

    space: Space
    warm_starts: Sequence[Config] = ()
    advice: Sequence[Config] = ()


class Strategy(Protocol):
    """Proposes configs: the *ask* of ask/tell. Results arrive through the growing history.

    Contract, enforced for each strategy by ``tests/unit/test_strategy_conformance.py``:
      * every proposal is valid and was never proposed before; `propose` returns None only when no such config is left;
      * the same context, history and generator state give the same proposal, also from a fresh instance that reads the
        history for the first time (caches are allowed, state is not);
      * an outcome without a measurement is information about the config, never a time; Abandoned, Cancelled and
        ReferenceFailed are not information;
      * not thread-safe; never keeps or changes the history it is given.
    """

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        """Return the next config to try, or None when the space is exhausted."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A strategy that limits the number of pending trials, so that later proposals can use more results.

    Contract: a pure function of the history, at least 1; as trials end, the limit may only grow or disappear.
    """

    def most_pending(self, history: History) -> int | None:
        """Return the largest useful number of pending trials at present; None: no limit."""
        ...


MARKED: dict[str, Callable[[Context], Strategy]] = {}
"""Strategies registered by `strategy`, by name."""

_Factory = TypeVar("_Factory", bound=Callable[[Context], Strategy])


def strategy(name: str) -> Callable[[_Factory], _Factory]:
    """Return a decorator that registers a class as the strategy of this name.

    Raises:
        ValueError: another class has the name.
    """
    return mark(MARKED, name, "strategies")
