"""Labels for a table with times of different runs. Such times are not comparable."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evo.messages.view.search import ChallengeView
from evo.messages.view.trial import TrialView

DIFFERENT_RUNS = (
    "Each confirmation is a separate run. Times of different runs, and quick times, are not comparable; verdicts "
    "compare kernels within one run."
)
"""Warning shown with a table that has times of several runs."""

RANKING = (
    "The champion ranks first, because paired measurements decide promotions. Confirmed trials follow by their "
    "confirmed times, and then all others by their quick times, which are provisional."
)
"""Explains the order of trials in a ranking, and thereby which trial is the best of a search."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The runs that measured the trials of a table. A run is a confirmation, or all quick samples of a search.

    Attributes:
        confirmations: search id and number of the confirmation (from 1) of each confirmed trial, by trial id.
        measured: all runs in the table, as pairs of search id and confirmation number. The number 0 denotes quick
            samples.
    """

    confirmations: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    measured: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, trials: Sequence[TrialView], challenges: Mapping[int, Sequence[ChallengeView]]) -> "Runs":
        """Return the runs that measured the trials of a table.

        Args:
            challenges: confirmations of each search, oldest first, by search id.
        """
        numbers = {
            (search, each.verdict.challenger): number
            for search, confirmations in challenges.items()
            for number, each in enumerate(confirmations, 1)
        }
        keys = {
            each.id: (each.search_id, each.confirmed.time) for each in trials if each.confirmed and each.confirmed.time
        }
        found = {trial: (key[0], numbers[key]) for trial, key in keys.items() if key in numbers}
        quick = {(each.search_id, 0) for each in trials if each.source == "quick"}
        return cls(confirmations=found, measured=frozenset(quick.union(found.values())))

    def source(self, trial: TrialView) -> str:
        """Return the source of a trial's time, e.g. ``confirmed in run 2`` if the table has several confirmations.

        The result is empty if the trial has no time.
        """
        if trial.time is None:
            return ""
        if len({*self.confirmations.values()}) < 2 or trial.id not in self.confirmations:
            return trial.time.source
        search, number = self.confirmations[trial.id]
        of = f" of search {search}" if len({each for each, _ in self.measured}) > 1 else ""
        return f"{trial.time.source} in run {number}{of}"

    @property
    def note(self) -> str | None:
        """Warning to show with the table; None if all its times are from one run."""
        return DIFFERENT_RUNS if len(self.measured) > 1 else None


def note_of_rivals(contests: Iterable[Hashable]) -> str | None:
    """Return the warning to show with a list of searches or champions whose times readers may compare.

    The result is None if no two entries are rivals.

    Args:
        contests: family, problem, device and objective of each entry. Entries with equal values are rivals.
    """
    listed = list(contests)
    return DIFFERENT_RUNS if len({*listed}) < len(listed) else None
