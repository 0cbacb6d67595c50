"""Interface between a search and the strategies that propose its configs."""

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
    """Information about a search that its strategy receives at the start.

    Attributes:
        space: the space to search.
        warm_starts: valid configs to try first, the most promising first: defaults, champions of similar problems
            on this device, and the author's measured configs. All later proposals depend on their results.
        advice: valid configs that were fast on a different device or according to a different tool, the most promising
            first. The first two are always tried. The others are tried until a config that is not advice is as fast as
            the best advised config. Bad advice therefore wastes few trials.
    """

    space: Space
    warm_starts: Sequence[Config] = ()
    advice: Sequence[Config] = ()


class Strategy(Protocol):
    """Proposes configs (the *ask* of an ask/tell interface). Results arrive in the growing history.

    ``tests/unit/test_strategy_conformance.py`` checks for each strategy that it fulfils this contract:
      * Every proposal is valid and was not proposed before. `propose` returns None only if no such config is left.
      * Equal context, history and generator state give the same proposal, even from a new instance that reads the
        history for the first time. An instance may cache results but must not depend on other state.
      * An outcome without a measurement gives information about the config, but no time. Abandoned, Cancelled and
        ReferenceFailed give no information about the config.
      * A strategy never changes the history. It need not be thread-safe.
    """

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        """Return the next config to try; None if all valid configs were proposed."""
        ...


@runtime_checkable
class Patient(Protocol):
    """A strategy that limits the number of pending trials, so that later proposals can use more results.

    The limit must be a pure function of the history, and at least 1. It may rise or disappear when trials end, but must
    not fall.
    """

    def most_pending(self, history: History) -> int | None:
        """Return the maximum number of pending trials; None for no limit. At the limit, workers wait for results."""
        ...


MARKED: dict[str, Callable[[Context], Strategy]] = {}
"""Strategies registered by `strategy`, by name."""

_Factory = TypeVar("_Factory", bound=Callable[[Context], Strategy])


def strategy(name: str) -> Callable[[_Factory], _Factory]:
    """Return a decorator that registers a class as the strategy with this name.

    Raises:
        ValueError: another class has the name.
    """
    return mark(MARKED, name, "strategies")
