"""The ordered log of a search, which every strategy is a pure function of."""

from bisect import bisect_left, insort
from collections.abc import Collection

from evo.trial import Proposal, Trial
from evo.trial.outcome import Abandoned, Cancelled, ReferenceFailed

ELITES = 8
"""How many of the fastest trials count as elites."""


class History:
    """What was asked and how it ended, in order.

    A strategy reads it and keeps nothing that could not be rebuilt from it, so a restarted service continues exactly
    where it stopped. `asked`, `finished` and `corrected` only ever grow; a caller that keeps a position can consume the
    news. Not thread-safe: its owner serialises access.

    Attributes:
        asked: every trial as it was asked, by number.
        finished: every ended trial with its outcome, in the order they ended.
        pending: asked trials that have not ended, by number.
        seen: for each asked trial, how many had ended when it was asked: with `finished`, the whole interleaving.
        position: number of an ended trial → its place in `finished`.
        corrected: number of an ended trial → its time in µs when it was measured again, for those that turned out to be
            slower than they had seemed; in the order in which that was found. Their outcomes stay as they were.
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
        """Append the next trial; its number is its position."""
        trial = Trial(number=len(self.asked), proposal=proposal)
        self.asked.append(trial)
        self.seen.append(len(self.finished))
        self.pending[trial.number] = trial
        return trial

    def tell(self, trial: Trial) -> None:
        """Record how a pending trial ended.

        Raises:
            KeyError: it is not pending (never asked, or told before).
        """
        del self.pending[trial.number]
        self.position[trial.number] = len(self.finished)
        self.finished.append(trial)
        if trial.time_us is not None:
            insort(self._ranked, (trial.time_us, trial.number, trial))

    def correct(self, number: int, time_us: float) -> None:
        """A trial that has a time was measured again, more thoroughly: it takes this long. The first word counts."""
        if number in self.corrected:
            return
        trial = self.finished[self.position[number]]
        del self._ranked[bisect_left(self._ranked, (trial.time_us, number))]
        insort(self._ranked, (time_us, number, trial))
        self.corrected[number] = time_us

    def time_us(self, trial: Trial) -> float | None:
        """What an ended trial takes as far as is known; None where it has no time."""
        return self.corrected.get(trial.number, trial.time_us)

    def elites(self, count: int) -> list[Trial]:
        """The `count` fastest measured trials, fastest first, by corrected times; the earlier one of a tie first."""
        return [trial for _, _, trial in self._ranked[:count]]

    def kernels(self, count: int, *, besides: Collection[str] = ()) -> list[Trial]:
        """Of the `count` fastest different kernels the fastest trial each; binaries in `besides` are passed over."""
        seen, found = set(besides), list[Trial]()
        for _, _, trial in self._ranked:
            if len(found) == count:
                break
            if trial.binary_digest is None or trial.binary_digest not in seen:
                found.append(trial)
                seen.add(trial.binary_digest or "")
        return found


def informative(trial: Trial) -> bool:
    """Whether the outcome says anything about the config: a lost worker or a broken reference does not."""
    return not isinstance(trial.outcome, Abandoned | Cancelled | ReferenceFailed | None)
