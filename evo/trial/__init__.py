"""One config in one search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from evo.trial.outcome import Estimated, Measured, Outcome

Value: TypeAlias = bool | int | float | str
Config: TypeAlias = Mapping[str, Value]
"""Tunable name → value; always complete and in the space's tunable order."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """What a strategy asks to have measured.

    Attributes:
        origin: the operator that made it, e.g. ``random``, ``tpe``, ``crossover``.
        parents: numbers of the trials it descends from, oldest first.
    """

    config: Config
    origin: str
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A proposal with its number and, once it has ended, its outcome.

    Attributes:
        binary_digest: of what it compiled to, with its launch: trials of equal digest are one kernel. None: not known.
    """

    number: int
    proposal: Proposal
    outcome: Outcome | None = None
    binary_digest: str | None = None

    @property
    def config(self) -> Config:
        return self.proposal.config

    @property
    def time_us(self) -> float | None:
        """What ranks: the median of a measurement, or in a search of estimates the estimate; None for all else."""
        match self.outcome:
            case Measured(timing=timing):
                return timing.median_us
            case Estimated(time_us=time_us):
                return time_us
        return None
