"""The ordered log of a search. Every proposal of a strategy is a pure function of it."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection
from dataclasses import replace

from evo.trial import Proposal, Trial
from evo.trial.outcome import Abandoned, Cancelled, Estimated, Measured, ReferenceFailed

ELITES = 8
"""Number of fastest trials that count as elites."""


class History:
    """Trials of a search in the order in which they were proposed and ended.

    A strategy reads the history and keeps no state that could not be rebuilt from it, so a restarted service continues
    exactly where it stopped. `asked`, `finished` and `corrected` only grow: a caller that remembers a position can read
    the entries added since. Not thread-safe; the owner serialises access.

    Attributes:
        asked: every trial as it was proposed, by number.
        finished: every ended trial with its outcome, in the order they ended.
        pending: proposed trials that have not ended, by number.
        seen: for each proposed trial, how many trials had ended when it was proposed. Together with `finished` this
            gives the complete interleaving.
        position: number of an ended trial → its index in `finished`.
        corrected: number of an ended trial → cost (`Trial.cost`) from a repeated, longer measurement that was worse
            than the first one; in the order of correction. The trials' outcomes are not changed.
    """

    def __init__(self) -> None:
        self.asked: list[Trial] = []
        self.finished: list[Trial] = []
        self.pending: dict[int, Trial] = {}
        self.seen: list[int] = []
        self.position: dict[int, int] = {}
        self.corrected: dict[int, float] = {}
        self._ranked: list[tuple[float, int, Trial]] = []

    def ask(self, proposal: Proposal) -> Trial:
        """Append the next trial; its number is its index in `asked`."""
        trial = Trial(number=len(self.asked), proposal=proposal)
        self.asked.append(trial)
        self.seen.append(len(self.finished))
        self.pending[trial.number] = trial
        return trial

    def tell(self, trial: Trial) -> None:
        """Record how a pending trial ended.

        Raises:
            KeyError: the trial is not pending: it was never proposed, or has ended already.
        """
        del self.pending[trial.number]
        self.position[trial.number] = len(self.finished)
        self.finished.append(trial)
        if trial.cost is not None:
            insort(self._ranked, (trial.cost, trial.number, trial))

    def correct(self, number: int, cost: float) -> None:
        """Replace the cost by which a trial is ranked by the cost from a longer measurement. Only the first correction
        counts.
        """
        if number in self.corrected:
            return
        trial = self.finished[self.position[number]]
        del self._ranked[bisect_left(self._ranked, (trial.cost, number))]
        insort(self._ranked, (cost, number, trial))
        self.corrected[number] = cost

    def cost(self, trial: Trial) -> float | None:
        """Return the cost of an ended trial: the corrected cost if there is one; None if the trial has no time."""
        return self.corrected.get(trial.number, trial.cost)

    def with_costs(self, cost_of: Callable[[Trial], float]) -> "History":
        """Return a copy in which trials are ranked by other costs.

        Args:
            cost_of: returns the new cost of an ended trial that has a cost.
        """
        copy = History()
        copy.asked, copy.seen = list(self.asked), list(self.seen)
        copy.pending, copy.position = dict(self.pending), dict(self.position)
        for trial in self.finished:
            weighed = trial
            if isinstance(trial.outcome, Measured | Estimated):
                cost = cost_of(trial)
                weighed = replace(trial, outcome=replace(trial.outcome, cost=cost))
                copy._ranked.append((cost, trial.number, weighed))
            copy.finished.append(weighed)
        copy._ranked.sort(key=lambda each: each[:2])
        return copy

    def elites(self, count: int) -> list[Trial]:
        """Return the `count` trials of least cost (the corrected cost, if there is one), best first.

        Of trials with equal costs, the earlier trial is first.
        """
        return [trial for _, _, trial in self._ranked[:count]]

    def kernels(self, count: int, *, excluding: Collection[str] = ()) -> list[Trial]:
        """Return the best trial of each of the `count` best distinct kernels, without kernels whose binary is in
        `excluding`.
        """
        seen, found = set(excluding), list[Trial]()
        for _, _, trial in self._ranked:
            if len(found) == count:
                break
            if trial.binary_digest is None or trial.binary_digest not in seen:
                found.append(trial)
                seen.add(trial.binary_digest or "")
        return found


def informative(trial: Trial) -> bool:
    """Return True if the outcome says something about the config; a lost worker or a broken reference does not."""
    return not isinstance(trial.outcome, Abandoned | Cancelled | ReferenceFailed | None)
