"""The two ways a contestant plays: asked for one config after the other, or in charge of its own loop."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.bench.strategy.ground import Ground
from tests.bench.strategy.run import Course, Run


class Player(Protocol):
    """One run's ask and tell; places stand for configs."""

    asks: int

    @property
    def full(self) -> bool:
        """Whether it had rather hear of a result than be asked for more now; never while nothing is under way."""
        ...

    def ask(self) -> int | None:
        """A valid config that was never asked before; None when it has none to offer."""
        ...

    def tell(self, place: int) -> None:
        """The evaluation of a config has ended the way it is recorded."""
        ...


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """Somebody who searches.

    Attributes:
        digest: of all that decides what it proposes; equal digests, equal runs but for the time they take.
        play: one run on a space with a seed.
        share: the share of the seeds that are played: less than one for those that take too long.
        brief: ends after the evaluations that count, also where the time axis goes on; its best stays until then.
        parallel: whether it can ask for more than one config before a result.
    """

    name: str
    digest: str
    play: Callable[[Ground, int, Course], Run]
    share: float = 1.0
    brief: bool = False
    parallel: bool = True
