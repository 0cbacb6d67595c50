"""What to try while nothing is known, and again when nothing gets better."""

import numpy as np

from evo.history import History
from evo.strategy.base import Context
from evo.strategy.observations import Observations
from evo.trial import Proposal

DESIGN = 6
"""Trials before a strategy starts to conclude anything."""

MIN_MEASURED = 2
"""Times without which there is nothing to conclude from, however many trials failed."""

FIRST, SHARE = 8, 0.75
"""Trials under way at once, at most, in the beginning, and then as a share of those that have ended: of those that many
workers try at once none knows what the others bring, so a search widens as it learns."""

CANDIDATES = 16
"""Random configs of which the one farthest from all earlier ones is taken."""


class Opening:
    """Warm starts, and a design that fills the space."""

    def __init__(self, context: Context) -> None:
        self._space = context.space
        starts = [(config, "warm start") for config in context.warm_starts] + [(context.space.default(), "default")]
        self._starts = [(context.space.key(config), config, origin) for config, origin in starts]
        self._spans = np.array([max(1, len(tunable.values) - 1) for tunable in context.space.tunables])
        self._ordinal = np.array([bool(tunable.ordinal) for tunable in context.space.tunables])

    def start(self, seen: Observations) -> Proposal | None:
        """The first warm start, or else the default, that was not asked yet."""
        for key, config, origin in self._starts:
            if key not in seen.keys:
                return Proposal(config=config, origin=origin)
        return None

    def spread(self, seen: Observations, rng: np.random.Generator) -> Proposal | None:
        """A random config far from what was asked, failures included; None when the space is exhausted."""
        drawn = self._space.sample(rng, CANDIDATES, exclude=seen.keys)
        if not drawn:
            return None
        known = np.concatenate([seen.rows, seen.pending])
        rows = np.array([self._space.encode(config) for config in drawn])
        apart = np.abs(rows[:, None, :] - known)
        distances = np.where(self._ordinal, apart / self._spans, apart > 0).sum(axis=2)
        farthest = int(distances.min(axis=1).argmax()) if len(known) else 0
        return Proposal(config=drawn[farthest], origin="design")


def most_pending(history: History) -> int:
    """How many trials may be under way at once for now."""
    return max(FIRST, int(SHARE * len(history.finished)))


def learning(seen: Observations) -> bool:
    """Whether there is too little to conclude from."""
    return len(seen.keys) < DESIGN or seen.measured < MIN_MEASURED
