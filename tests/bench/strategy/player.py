"""Interfaces of contestants: a player is asked for each config; a contestant runs a whole search."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.run import Course, Run


class Player(Protocol):
    """One search by ask and tell. A config is given by its index in the recording."""

    asks: int

    @property
    def full(self) -> bool:
        """Return True while the player prefers a result to another proposal; never while nothing is pending."""
        ...

    def ask(self) -> int | None:
        """Return a valid config that was not proposed before; None if there is none."""
        ...

    def tell(self, place: int) -> None:
        """Record that the evaluation of a config has ended with its recorded result."""
        ...


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A search method to be compared.

    Attributes:
        digest: digest of all code and settings that decide proposals: equal digests give equal runs except for time.
        play: runs one search on a space with a seed.
        share: share of the seeds to run; below 1 for slow contestants.
        brief: True if a run ends after the scored evaluations even if the time axis continues with its best.
        parallel: True if it can propose several configs before a result.
    """

    name: str
    digest: str
    play: Callable[[Ground, int, Course], Run]
    share: float = 1.0
    brief: bool = False
    parallel: bool = True
