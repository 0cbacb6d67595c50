"""Niches: groups of configs with the same mechanisms. Each niche gets some trials before it is compared with others.

An example of a mechanism is how tiles are copied; see `Space.mechanisms`. The first config with the best
mechanism may be slower than the elites, because its other tunables do not yet have suitable values. Successive halving
therefore gives one trial to every niche, and more trials to the faster niches.

If the search stagnates, all tunables of the best config may have suitable values for its own mechanisms, while another
niche would be faster with different values. The best other niches are then searched on their own.

Source: Jamieson and Talwalkar, *Non-stochastic best arm identification and hyperparameter optimization*, AISTATS
(2016).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evo.space import Indices, Space
from evo.strategy.parts.breeding import Breeding
from evo.strategy.parts.neighbourhood import CENTRES, Neighbourhood
from evo.strategy.parts.observations import HOPELESS, Losses, Observations, Places
from evo.strategy.parts.relinking import Flags, Relinking
from evo.strategy.parts.suggestions import Suggestions
from evo.trial.history import ELITES

RUNGS = ((1, 1), (3, 3), (9, 9))
"""Pairs (n, trials): the best 1/n of the niches get this many trials."""

LOCAL_RUNGS = ((3, 30), (2, 90), (1, 270))
"""Pairs (n, trials): while the search stagnates, each of the best n niches gets this many trials. They are counted from
the first trial whose time is within the factor `GAIN` of the best time. The niche of the best trial is excluded.
"""

LOCAL_AFTER = 64
GAIN = 1.005
"""The search stagnates if the best time was not improved by the factor `GAIN` in the last `LOCAL_AFTER` trials."""

CHILDREN = 50
"""Number of children of a niche's best trials that are suggested while the niche is searched on its own."""

STARTS = 20
"""Maximum number of random configs of a niche per proposal. Values of the best trial are then copied to them."""


@dataclass(frozen=True, kw_only=True)
class NicheResults:
    """Number of trials and best trial of each niche.

    Attributes:
        trials: number of trials, including pending ones, shape (niches,).
        best: index of the niche's best observation, shape (niches,); -1 if no trial has ended.
        losses: loss of the best observation, shape (niches,); infinite if no trial of the niche succeeded.
    """

    trials: Places
    best: Places
    losses: Losses


@dataclass(frozen=True, kw_only=True)
class Due:
    """Suggestions for a trial of one niche.

    Attributes:
        configs: the suggestions. Some of them may have been proposed before.
        rivals: indices of the observations that the trial should improve on: the niche's trials if the niche is
            searched on its own; None for all trials.
    """

    configs: Suggestions
    rivals: Places | None = None


class Niches:
    """Chooses the niche of a trial: by successive halving, or by searches of single niches if the search stagnates.

    The niches are the combinations of the mechanisms of a space (`Space.mechanisms`).
    """

    def __init__(self, space: Space, relinking: Relinking, neighbourhood: Neighbourhood, breeding: Breeding) -> None:
        self._space = space
        self._relinking = relinking
        self._neighbourhood = neighbourhood
        self._breeding = breeding
        self._columns = np.array(space.mechanisms, dtype=np.intp)
        self._members: Indices | None = None

    def due(self, seen: Observations, rng: np.random.Generator) -> Due | None:
        """Return suggestions for the niche that should get the next trial.

        The result is None if the space has fewer than two niches, or if all quotas are used: those of `RUNGS` and, if
        the search stagnates, those of `LOCAL_RUNGS`. At least one trial must have a time.
        """
        if not len(self._columns) or len(self._niches) < 2:
            return None
        results = self._results(seen)
        ranked = np.argsort(results.losses, kind="stable")
        shares = [(-(-len(self._niches) // share), trials) for share, trials in RUNGS]
        waiting = _waiting(ranked, results.trials, shares)
        if len(waiting):
            niche = int(waiting[results.trials[waiting].argmin()])
            centre = int(results.best[niche])
            near = self._random_configs(niche, seen, rng) if centre < 0 else self._near_best(niche, centre, seen, rng)
            return Due(configs=near)
        return self._local(ranked[results.losses[ranked] < HOPELESS], seen, rng)

    def _local(self, ranked: Places, seen: Observations, rng: np.random.Generator) -> Due | None:
        """Return configs near the best trials of the niche that should be searched on its own.

        The result is None if the search does not stagnate, or if these niches have used their quotas.
        """
        since = int(np.argmax(seen.losses <= GAIN * seen.losses[seen.order[0]]))
        if len(seen.rows) - since <= LOCAL_AFTER:
            return None
        later = np.concatenate([seen.rows[since:], seen.pending])
        waiting = _waiting(ranked[1:], self._members_of(later).sum(axis=0), LOCAL_RUNGS)
        if not len(waiting):
            return None
        niche = waiting[0]
        timed = seen.order[: seen.measured]
        rivals = timed[self._members_of(seen.rows[timed])[:, niche]]
        near = self._neighbourhood.of(rivals[:CENTRES], seen, rng)
        configs = Suggestions.joined([near, self._breeding.brood(seen, CHILDREN, rng, elites=rivals[:ELITES])])
        inside = configs.take(np.flatnonzero(self._members_of(configs.rows)[:, niche]))
        return Due(configs=replace(inside, origins=np.full(len(inside.rows), "niche")), rivals=rivals)

    @property
    def _niches(self) -> Indices:
        """The combinations of mechanisms that occur in random valid configs, shape (niches, mechanisms)."""
        if self._members is None:
            self._members = np.unique(self._relinking.starts[:, self._columns], axis=0)
        return self._members

    def _results(self, seen: Observations) -> NicheResults:
        ended, pending = self._members_of(seen.rows), self._members_of(seen.pending)
        best = np.full(len(self._niches), -1, dtype=np.intp)
        losses = np.full(len(self._niches), np.inf)
        for niche in range(len(self._niches)):
            indices = np.flatnonzero(ended[:, niche])
            if len(indices):
                best[niche] = indices[seen.losses[indices].argmin()]
                losses[niche] = seen.losses[best[niche]]
        return NicheResults(trials=ended.sum(axis=0) + pending.sum(axis=0), best=best, losses=losses)

    def _members_of(self, rows: Indices) -> Flags:
        """Return a mask of shape (rows, niches): True where the row belongs to the niche."""
        return np.asarray((rows[:, None, self._columns] == self._niches[None]).all(axis=2))

    def _random_configs(self, niche: int, seen: Observations, rng: np.random.Generator) -> Suggestions:
        """Return random configs of the niche, into which values of the overall best trial were copied if valid."""
        best = seen.order[0]
        starts = self._relinking.starts
        starts = starts[self._members_of(starts)[:, niche]]
        starts = starts[rng.permutation(len(starts))[:STARTS]]
        kept = np.zeros(starts.shape, dtype=np.bool_)
        kept[:, self._columns] = True
        ends = self._relinking.ends(starts, np.broadcast_to(seen.rows[best], starts.shape), kept, rng)
        return Suggestions(
            rows=ends, origins=np.full(len(ends), "niche"), parents=np.full((len(ends), 2), best, dtype=np.intp)
        )

    def _near_best(self, niche: int, centre: int, seen: Observations, rng: np.random.Generator) -> Suggestions:
        """Return the neighbours of the niche's best trial that are in the niche, then random configs of the niche.

        Args:
            centre: index of the niche's best trial among the observations.
        """
        row = seen.rows[centre]
        rows = np.concatenate([self._neighbourhood.around(row, rng), self._neighbourhood.relinked(row)])
        rows = rows[self._members_of(rows)[:, niche]]
        near = Suggestions(
            rows=rows, origins=np.full(len(rows), "niche"), parents=np.full((len(rows), 2), centre, dtype=np.intp)
        )
        return Suggestions.joined([near, self._random_configs(niche, seen, rng)])


def _waiting(ranked: Places, trials: Places, rungs: Sequence[tuple[int, int]]) -> Places:
    """Return the niches below their quota on the first rung that has any, best first; empty if all quotas are used.

    Args:
        ranked: niches, best first.
        trials: number of trials of each niche.
        rungs: pairs (n, quota): the best n niches get this many trials.
    """
    for count, quota in rungs:
        waiting = ranked[:count][trials[ranked[:count]] < quota]
        if len(waiting):
            return waiting
    return ranked[:0]
