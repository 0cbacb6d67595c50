"""The ordered log of a search. A strategy's proposals depend only on this log and on a random generator."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection
from dataclasses import replace

from evo.trial import Proposal, Trial
from evo.trial.outcome import Abandoned, Cancelled, Estimated, Measured, ReferenceFailed

ELITES = 8
"""Number of the fastest trials that count as elites."""


class History:
    """Trials of a search in the order in which they were proposed and ended.

    A strategy reads the history and keeps no other state, so a restarted service continues exactly where it stopped.
    `asked`, `finished` and `corrected` only grow, so a caller can remember a position and later read the entries after
    it. The class is not thread-safe.

    Attributes:
        asked: all proposed trials, without outcomes, in order of proposal; a trial's number is its index.
        finished: all ended trials with their outcomes, in the order in which they ended.
        pending: proposed trials that have not ended, by number.
        seen: number of trials that had ended when each trial was proposed, in the order of `asked`. Together with
            `finished`, this gives the complete order of events.
        position: index in `finished` of each ended trial, by trial number.
        corrected: costs that replace those of the quick samples, because a longer measurement of the trial's binary
            gave a higher cost. By trial number, in order of correction. The trials' outcomes are not changed.
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
        """Append the next trial. Its number is its index in `asked`."""
        trial = Trial(number=len(self.asked), proposal=proposal)
        self.asked.append(trial)
        self.seen.append(len(self.finished))
        self.pending[trial.number] = trial
        return trial

    def tell(self, trial: Trial) -> None:
        """Record the outcome of a pending trial.

        Raises:
            KeyError: the trial is not pending, because it was never proposed or has already ended.
        """
        del self.pending[trial.number]
        self.position[trial.number] = len(self.finished)
        self.finished.append(trial)
        if trial.cost is not None:
            insort(self._ranked, (trial.cost, trial.number, trial))

    def correct(self, number: int, cost: float) -> None:
        """Replace a trial's cost with that of a longer measurement. Only the first correction of a trial counts."""
        if number in self.corrected:
            return
        trial = self.finished[self.position[number]]
        del self._ranked[bisect_left(self._ranked, (trial.cost, number))]
        insort(self._ranked, (cost, number, trial))
        self.corrected[number] = cost

    def cost(self, trial: Trial) -> float | None:
        """Return the cost of an ended trial, after its correction if there is one; None if the trial has no time."""
        return self.corrected.get(trial.number, trial.cost)

    def with_costs(self, cost_of: Callable[[Trial], float]) -> "History":
        """Return a copy of the history in which the trials have new costs. Corrections are not copied.

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
        """Return the `count` trials with the lowest (corrected) costs, best first.

        Of trials with equal costs, the trial with the lower number is first.
        """
        return [trial for _, _, trial in self._ranked[:count]]

    def kernels(self, count: int, *, excluding: Collection[str] = ()) -> list[Trial]:
        """Return at most `count` trials with different binaries, best first.

        Trials without a binary digest count as different from all others.

        Args:
            excluding: digests of binaries whose trials are skipped.
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
    """Return True if the outcome gives information about the config; a lost worker or a broken reference gives none."""
    return not isinstance(trial.outcome, Abandoned | Cancelled | ReferenceFailed | None)
