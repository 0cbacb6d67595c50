"""Niches: groups of configs with the same mechanisms. Each niche gets some trials before it is compared with others.

An example of a mechanism is how tiles are copied; see `Space.mechanisms`. The first config with the best
mechanism may be slower than the elites, because its other tunables do not yet have suitable values. Successive halving
therefore gives one trial to every niche, and more trials to the faster niches.

Source: Jamieson and Talwalkar, *Non-stochastic best arm identification and hyperparameter optimization*, AISTATS
(2016).
"""

from dataclasses import dataclass

import numpy as np

from evo.space import Indices, Space
from evo.strategy.parts.neighbourhood import Neighbourhood
from evo.strategy.parts.observations import Losses, Observations, Places
from evo.strategy.parts.relinking import Flags, Relinking
from evo.strategy.parts.suggestions import Suggestions

RUNGS = ((1, 1), (3, 3), (9, 9))
"""Pairs (n, trials): the best 1/n of the niches get this many trials."""

STARTS = 20
"""Number of random configs of a niche that are drawn for its first suggestions. Values of the best trial are then
copied to these configs.
"""


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


class Niches:
    """Successive halving over the mechanisms of a space (`Space.mechanisms`)."""

    def __init__(self, space: Space, relinking: Relinking, neighbourhood: Neighbourhood) -> None:
        self._space = space
        self._relinking = relinking
        self._neighbourhood = neighbourhood
        self._columns = np.array(space.mechanisms, dtype=np.intp)
        self._members: Indices | None = None

    def due(self, seen: Observations, rng: np.random.Generator) -> Suggestions | None:
        """Return configs of the niche that should get the next trial; None if every niche has used its quota of trials.

        Some of the configs may have been proposed before. At least one trial must have a time.
        """
        if not len(self._columns) or len(self._niches) < 2:
            return None
        results = self._results(seen)
        for share, trials in RUNGS:
            ranked = np.argsort(results.losses, kind="stable")[: -(-len(self._niches) // share)]
            waiting = ranked[results.trials[ranked] < trials]
            if len(waiting):
                niche = int(waiting[results.trials[waiting].argmin()])
                return (
                    self._random_configs(niche, seen, rng)
                    if results.best[niche] < 0
                    else self._near_best(niche, int(results.best[niche]), seen, rng)
                )
        return None

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
