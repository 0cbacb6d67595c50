"""Interfaces of contestants: a player proposes each config, a contestant runs a whole search."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.run import Course, Run


class Player(Protocol):
    """One search with an ask-and-tell interface. Configs are identified by their index in the recording."""

    asks: int

    @property
    def full(self) -> bool:
        """Return True while the player should wait for a result; False if nothing is pending."""
        ...

    def ask(self) -> int | None:
        """Return a valid config that was not proposed before; None if there is none."""
        ...

    def tell(self, place: int) -> None:
        """Record that the evaluation of a config has ended with its recorded result."""
        ...


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A search method in a comparison.

    Attributes:
        digest: digest of all code and settings that affect proposals. Equal digests give equal runs, except for
            durations.
        play: runs one search on a space with a seed.
        share: fraction of the seeds to run; below 1 for slow contestants.
        brief: True if a run ends after the scored evaluations. The comparison by time then continues with its best
            config.
        parallel: True if the contestant can propose several configs before it gets a result.
    """

    name: str
    digest: str
    play: Callable[[Ground, int, Course], Run]
    share: float = 1.0
    brief: bool = False
    parallel: bool = True
