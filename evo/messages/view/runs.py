"""Runs in which the times of a table were measured, for the terminal and the pages."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from evo.messages.view.search import ChallengeView
from evo.messages.view.trial import TrialView

DIFFERENT_RUNS = (
    "Each confirmation is a separate run. Times of different runs, and quick times, are not comparable; verdicts "
    "compare kernels within one run."
)
"""Shown with a table that has times of several runs."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs of the trials of one table. The quick samples of a search count as one run.

    Attributes:
        confirmations: trial id → id of its search and number of its confirmation in that search, from 1.
        measured: each run in the table: a search's id and the number of a confirmation, 0 for quick samples.
    """

    confirmations: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    measured: frozenset[tuple[int, int]] = frozenset()

    @classmethod
    def of(cls, trials: Sequence[TrialView], challenges: Mapping[int, Sequence[ChallengeView]]) -> "Runs":
        """Return the runs of a table's trials.

        Args:
            challenges: search's id → confirmations of that search, oldest first.
        """
        numbers = {
            (search, each.verdict.challenger): number
            for search, confirmations in challenges.items()
            for number, each in enumerate(confirmations, 1)
        }
        keys = {each.id: (each.search_id, each.confirmed.time) for each in trials if each.confirmed is not None}
        found = {trial: (key[0], numbers[key]) for trial, key in keys.items() if key in numbers}
        quick = {(each.search_id, 0) for each in trials if each.source == "quick"}
        return cls(confirmations=found, measured=frozenset(quick.union(found.values())))

    def source(self, trial: TrialView) -> str:
        """Return the source of a trial's time, with its run if the table has several confirmations."""
        if trial.time is None:
            return ""
        if len({*self.confirmations.values()}) < 2 or trial.id not in self.confirmations:
            return trial.time.source
        search, number = self.confirmations[trial.id]
        of = f" of search {search}" if len({each for each, _ in self.measured}) > 1 else ""
        return f"{trial.time.source} in run {number}{of}"

    @property
    def note(self) -> str | None:
        """The sentences to show with the table; None if all of its times are of one run."""
        return DIFFERENT_RUNS if len(self.measured) > 1 else None


def note_of_rivals(contests: Iterable[Hashable]) -> str | None:
    """Return the sentences to show with a list of searches or champions; None if no two of them compete.

    Args:
        contests: for each search or champion, its family, problem, device and objective, for which it competes.
    """
    listed = list(contests)
    return DIFFERENT_RUNS if len({*listed}) < len(listed) else None
