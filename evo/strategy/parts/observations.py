"""The history as rows of value ranks, which is what strategies compute with."""

from bisect import bisect, bisect_left
from collections.abc import Collection
from itertools import islice
from weakref import ref

import numpy as np
import numpy.typing as npt

from evo.space import Indices, Space
from evo.trial import Trial
from evo.trial.history import ELITES, History, informative
from evo.trial.outcome import Pruned

Losses = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

HOPELESS = float(np.finfo(np.float64).max)
"""Loss of a pruned trial: worse than any time, better than a failure, which is infinite."""


class Observations:
    """What one history says so far; `refresh` takes in only what is new since the last call.

    A history it has not met before is read from its beginning, so the content never depends on earlier calls.

    Args:
        hidden: origins of trials of which nothing is known but that their configs were asked.

    Attributes:
        keys: of every config that was ever asked.
        rows: ranks of the configs of ended trials that say something, in the order they ended, shape (n, tunables).
        losses: time in µs, the corrected one where there is one, `HOPELESS` if pruned, infinite if failed; shape (n,).
        numbers: of those trials.
        order: positions in `rows` by loss, best first, the earlier trial of a tie first.
        log: the same object as long as these are observations of the same history and none was corrected.
        pending: ranks of the configs still being evaluated, shape (m, tunables).
    """

    def __init__(self, space: Space, *, hidden: Collection[str] = ()) -> None:
        self._space = space
        self._hidden = frozenset(hidden)
        self._source: ref[History] | None = None
        self._read = self._corrected = 0
        self._clear()

    def refresh(self, history: History) -> None:
        """Take in what was asked and what ended since the last call."""
        if self._source is None or self._source() is not history:
            self._clear()
            self._source = ref(history)
        for trial in history.asked[len(self._asked) :]:
            row = self._space.encode(trial.config)
            self._asked.append(row)
            self._asked_codes.update(_codes(row[None, :]))
            self.keys.add(self._space.row_key(row))
        news = history.finished[self._read :]
        self._read += len(news)
        told = [trial for trial in news if informative(trial) and self._shown(trial)]
        if told:
            self._append(told)
        for number, time_us in islice(history.corrected.items(), self._corrected, None):
            self._correct(number, time_us)
        self._corrected = len(history.corrected)
        pending = [number for number, trial in history.pending.items() if self._shown(trial)]
        self.pending = self._rows([self._asked[number] for number in pending])

    @property
    def measured(self) -> int:
        """How many trials have a time; they come first in `order`."""
        return int(np.count_nonzero(self.losses < HOPELESS))

    @property
    def worked(self) -> int:
        """How many did not fail: those with a time and the pruned; they too come first in `order`."""
        return int(np.count_nonzero(np.isfinite(self.losses)))

    @property
    def elites(self) -> Places:
        """Positions of the fastest trials, fastest first."""
        return self.order[: min(ELITES, self.measured)]

    def fresh(self, rows: Indices) -> Places:
        """Positions of the distinct ones among these rows that are valid and were never asked."""
        valid = np.flatnonzero(self._space.valid(rows))
        found: dict[bytes, int] = {}
        for code, place in zip(_codes(rows[valid]), valid.tolist(), strict=True):
            if code not in self._asked_codes:
                found.setdefault(code, place)
        return np.fromiter(found.values(), dtype=np.intp, count=len(found))

    def _shown(self, trial: Trial) -> bool:
        return trial.proposal.origin not in self._hidden

    def _clear(self) -> None:
        self._asked: list[Indices] = []
        self._asked_codes: set[bytes] = set()
        self._read = self._corrected = 0
        self._ranked: list[tuple[float, int]] = []
        self.log = object()
        self.keys: set[str] = set()
        self.rows = self.pending = self._rows([])
        self.losses: Losses = np.empty(0)
        self.numbers: list[int] = []
        self.order: Places = np.empty(0, dtype=np.intp)

    def _append(self, told: list[Trial]) -> None:
        for trial in told:
            rank = (_loss(trial), trial.number)
            place = bisect(self._ranked, rank)
            self._ranked.insert(place, rank)
            self.order = np.insert(self.order, place, len(self.numbers))
            self.numbers.append(trial.number)
        self.losses = np.concatenate([self.losses, [_loss(trial) for trial in told]])
        self.rows = np.concatenate([self.rows, self._rows([self._asked[trial.number] for trial in told])])

    def _correct(self, number: int, time_us: float) -> None:
        if number not in self.numbers:
            return  # not shown
        place = self.numbers.index(number)
        before = bisect_left(self._ranked, (self.losses[place], number))
        del self._ranked[before]
        now = bisect(self._ranked, (time_us, number))
        self._ranked.insert(now, (time_us, number))
        self.order = np.insert(np.delete(self.order, before), now, place)
        self.losses = self.losses.copy()
        self.losses[place] = time_us
        self.log = object()

    def _rows(self, rows: list[Indices]) -> Indices:
        return np.array(rows, dtype=np.int32).reshape(len(rows), len(self._space.tunables))


def spread(ranked: Places, count: int) -> Places:
    """At most `count` of these: half are the first, half evenly spread over the rest."""
    if len(ranked) <= count:
        return ranked
    first = count // 2
    return np.concatenate([ranked[:first], ranked[np.linspace(first, len(ranked) - 1, count - first).astype(np.intp)]])


def _loss(trial: Trial) -> float:
    if isinstance(trial.outcome, Pruned):
        return HOPELESS
    return float("inf") if trial.time_us is None else trial.time_us


def _codes(rows: Indices) -> list[bytes]:
    """Rows as something to look up: a key takes far longer to write."""
    codes: list[bytes] = np.ascontiguousarray(rows, dtype=np.int32).view(f"V{4 * rows.shape[1]}").ravel().tolist()
    return codes
