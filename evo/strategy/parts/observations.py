"""The trials of a history as arrays, from which strategies compute proposals."""

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
"""Loss of a pruned trial. It is worse than any time, but better than the infinite loss of a failure."""


class Observations:
    """The trials of one history, as arrays. `refresh` reads only the trials that are new since the last call.

    If `refresh` gets a different history, it reads all trials, so the content never depends on earlier calls.

    Args:
        hidden: origins of trials whose results are ignored. These trials are omitted from all attributes except `keys`,
            because their configs still count as proposed.

    Attributes:
        keys: keys of all proposed configs.
        rows: value indices of the ended trials' configs, in the order in which the trials ended, shape (n, tunables).
            Trials whose outcome gives no information about the config, e.g. cancelled ones, are omitted.
        losses: loss of each row, shape (n,): the trial's cost (corrected after a confirmation), `HOPELESS` if it was
            pruned, infinite if it failed.
        numbers: trial number of each row.
        order: indices of the rows by loss, lowest first. Of rows with equal losses, the earlier trial is first.
        log: an object that is replaced when a different history is read or a cost is corrected. Callers compare it to
            detect that cached results are outdated.
        pending: value indices of the configs of pending trials, shape (m, tunables).
    """

    def __init__(self, space: Space, *, hidden: Collection[str] = ()) -> None:
        self._space = space
        self._hidden = frozenset(hidden)
        self._source: ref[History] | None = None
        self._read = self._corrected = 0
        self._clear()

    def refresh(self, history: History) -> None:
        """Read the trials that were proposed, ended or corrected since the last call."""
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
        informed = [trial for trial in news if informative(trial) and self._shown(trial)]
        if informed:
            self._append(informed)
        for number, cost in islice(history.corrected.items(), self._corrected, None):
            self._correct(number, cost)
        self._corrected = len(history.corrected)
        pending = [number for number, trial in history.pending.items() if self._shown(trial)]
        self.pending = self._rows([self._asked[number] for number in pending])

    @property
    def measured(self) -> int:
        """Number of trials with a time. They are the first entries of `order`."""
        return int(np.count_nonzero(self.losses < HOPELESS))

    @property
    def worked(self) -> int:
        """Number of trials that did not fail, i.e. were timed or pruned. They are the first entries of `order`."""
        return int(np.count_nonzero(np.isfinite(self.losses)))

    @property
    def elites(self) -> Places:
        """Indices in `rows` of the fastest trials, fastest first."""
        return self.order[: min(ELITES, self.measured)]

    def fresh(self, rows: Indices) -> Places:
        """Return the indices of the rows that are valid and were never proposed, without duplicates."""
        valid = np.flatnonzero(self._space.valid(rows))
        found: dict[bytes, int] = {}
        for code, index in zip(_codes(rows[valid]), valid.tolist(), strict=True):
            if code not in self._asked_codes:
                found.setdefault(code, index)
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

    def _append(self, trials: list[Trial]) -> None:
        for trial in trials:
            rank = (_loss(trial), trial.number)
            index = bisect(self._ranked, rank)
            self._ranked.insert(index, rank)
            self.order = np.insert(self.order, index, len(self.numbers))
            self.numbers.append(trial.number)
        self.losses = np.concatenate([self.losses, [_loss(trial) for trial in trials]])
        self.rows = np.concatenate([self.rows, self._rows([self._asked[trial.number] for trial in trials])])

    def _correct(self, number: int, cost: float) -> None:
        if number not in self.numbers:
            return  # hidden trials are not observed
        index = self.numbers.index(number)
        before = bisect_left(self._ranked, (self.losses[index], number))
        del self._ranked[before]
        now = bisect(self._ranked, (cost, number))
        self._ranked.insert(now, (cost, number))
        self.order = np.insert(np.delete(self.order, before), now, index)
        self.losses = self.losses.copy()
        self.losses[index] = cost
        self.log = object()

    def _rows(self, rows: list[Indices]) -> Indices:
        return np.array(rows, dtype=np.int32).reshape(len(rows), len(self._space.tunables))


def spread(ranked: Places, count: int) -> Places:
    """Return at most `count` entries of `ranked`: the first `count // 2`, then evenly spaced entries of the rest."""
    if len(ranked) <= count:
        return ranked
    first = count // 2
    return np.concatenate([ranked[:first], ranked[np.linspace(first, len(ranked) - 1, count - first).astype(np.intp)]])


def _loss(trial: Trial) -> float:
    if isinstance(trial.outcome, Pruned):
        return HOPELESS
    return float("inf") if trial.cost is None else trial.cost


def _codes(rows: Indices) -> list[bytes]:
    """Return a hashable code for each row. Codes are computed much faster than keys of configs."""
    codes: list[bytes] = np.ascontiguousarray(rows, dtype=np.int32).view(f"V{4 * rows.shape[1]}").ravel().tolist()
    return codes
