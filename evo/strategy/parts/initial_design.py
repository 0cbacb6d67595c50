"""What to try while nothing is known."""

import numpy as np

from evo.strategy.base import Context
from evo.strategy.parts.observations import Observations
from evo.trial import Proposal
from evo.trial.history import History

DESIGN = 6
"""Trials before a strategy starts to conclude anything."""

MIN_MEASURED = 2
"""Times without which there is nothing to conclude from, however many trials failed."""

ADVICE = "advice"
"""Origin of a config that was fast elsewhere."""

BEFORE = 2
"""Pieces of advice that are tried before what is known of this device, whatever comes of them."""

FIRST, SHARE = 8, 0.5
"""Trials under way at once, at most, in the beginning, and then as a share of those that have ended: of those that many
workers try at once none knows what the others bring, so a search widens as it learns."""

CANDIDATES = 16
"""Random configs of which the one farthest from all earlier ones is taken …"""

LATEST = 1_000
"""… or from so many of the latest, where nothing works and the opening does not end."""


class Opening:
    """Advice, warm starts, and a design that fills the space."""

    def __init__(self, context: Context) -> None:
        space = context.space
        starts = [(config, "warm start") for config in context.warm_starts] + [(space.default(), "default")]
        own = [(space.key(config), config, origin) for config, origin in starts]
        known = {key for key, _, _ in own}
        advice = [(key, each, ADVICE) for each in context.advice if (key := space.key(each)) not in known]
        self._space = space
        self._starts = [*advice[:BEFORE], *own, *advice[BEFORE:]]
        self._advice = {key for key, _, _ in advice}
        self._spans = np.array([max(1, len(tunable.values) - 1) for tunable in space.tunables])
        self._ordinal = np.array([bool(tunable.ordinal) for tunable in space.tunables])

    @property
    def advised(self) -> bool:
        """Whether there is any advice."""
        return bool(self._advice)

    def lasting(self, seen: Observations) -> int:
        """How many trials the opening takes: the advice that was asked comes on top."""
        return DESIGN + len(self._advice & seen.keys)

    def start(self, seen: Observations, *, advice: bool = True) -> Proposal | None:
        """The first of advice, warm starts and default that was not asked yet.

        Args:
            advice: whether more of it is wanted.
        """
        for key, config, origin in self._starts:
            if key not in seen.keys and (advice or origin != ADVICE):
                return Proposal(config=config, origin=origin)
        return None

    def spread(self, seen: Observations, rng: np.random.Generator) -> Proposal | None:
        """A random config far from what was asked, failures included; None when the space is exhausted."""
        drawn = self._space.sample(rng, CANDIDATES, exclude=seen.keys)
        if not drawn:
            return None
        known = np.concatenate([seen.rows, seen.pending])[-LATEST:]
        rows = np.array([self._space.encode(config) for config in drawn])
        apart = np.abs(rows[:, None, :] - known)
        distances = np.where(self._ordinal, apart / self._spans, apart > 0).sum(axis=2)
        farthest = int(distances.min(axis=1).argmax()) if len(known) else 0
        return Proposal(config=drawn[farthest], origin="design")


def most_pending(history: History) -> int:
    """How many trials may be under way at once for now."""
    return max(FIRST, int(SHARE * len(history.finished)))


def learning(seen: Observations, lasting: int = DESIGN) -> bool:
    """Whether there is too little to conclude from: fewer trials than the opening lasts, or hardly a time."""
    return len(seen.keys) < lasting or seen.measured < MIN_MEASURED
