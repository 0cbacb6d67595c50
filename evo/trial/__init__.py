"""Trials: a trial is one config of a search, with its origin and outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from evo.trial.outcome import Estimated, Measured, Outcome

Value: TypeAlias = bool | int | float | str
Config: TypeAlias = Mapping[str, Value]
"""Value of each tunable by name. A config has a value for every tunable, in the space's order."""


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A config that a strategy proposes for measurement.

    Attributes:
        origin: method by which the strategy made the config, e.g. ``random``, ``tpe``, ``crossover``.
        parents: numbers of the trials from which the config was derived, oldest first.
    """

    config: Config
    origin: str
    parents: tuple[int, ...] = ()


def quick_cost(outcome: Outcome | None) -> float | None:
    """Return the cost of a trial from its quick samples or estimate (lower is better); None if it has no time.

    The cost is computed from the search's metric (`evo.promotion.goal`) if there is one; else, it is the time in µs. A
    later confirmation does not change it, so it is comparable between confirmed and other trials of a search.
    """
    cost = outcome.cost if isinstance(outcome, Measured | Estimated) else None
    return quick_time_us(outcome) if cost is None else cost


def quick_time_us(outcome: Outcome | None) -> float | None:
    """Return the median of the quick samples or the estimated time in µs; None if the trial has no time."""
    match outcome:
        case Measured(timing=timing):
            return timing.median_us
        case Estimated(time_us=time_us):
            return time_us
    return None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A proposal with its trial number and, once the trial has ended, its outcome.

    Attributes:
        outcome: how the trial ended; None while it is pending.
        binary_digest: digest of the compiled binaries of all cases and their launches; None if unknown. Trials with
            equal digests have the same kernel.
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
        """Time in µs: the median of the quick samples, or the estimate. None for other outcomes."""
        return quick_time_us(self.outcome)

    @property
    def cost(self) -> float | None:
        """Cost from quick samples or the estimate, lower is better; None without a time. See `quick_cost`."""
        return quick_cost(self.outcome)

    @property
    def second_cost(self) -> float | None:
        """Cost under the search's second objective. None if the search has one objective or the trial has no time."""
        return self.outcome.second_cost if isinstance(self.outcome, Measured | Estimated) else None
