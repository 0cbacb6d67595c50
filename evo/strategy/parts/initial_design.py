"""The first trials of a search: advice, warm starts, and configs spread over the space."""

import numpy as np
import numpy.typing as npt

from evo.strategy.base import Context
from evo.strategy.parts.observations import Observations
from evo.trial import Proposal
from evo.trial.history import History

DESIGN = 6
"""Number of trials that must precede the first proposal based on results."""

MIN_MEASURED = 2
"""Number of trials with a time that must precede the first proposal based on results."""

ADVICE = "advice"
"""Origin of proposals that are advised configs."""

BEFORE = 2
"""Number of advised configs that are tried before the warm starts."""

FIRST, SHARE = 8, 0.5
"""Limit of pending trials: `FIRST`, or the fraction `SHARE` of the ended trials if this is more. The limit exists
because trials that are pending at the same time cannot use each other's results.
"""

CANDIDATES = 16
"""Number of random configs that are drawn for a proposal. The one farthest from all earlier trials is proposed."""

CANDIDATES_OF_PAIRS = 64
"""Number of random configs that are drawn for a proposal if the initial design has ended and no config has worked. The
one with the most new pairs of values is proposed.
"""

LATEST = 1_000
"""Maximum number of earlier trials (the latest ones) with which a new config is compared. The limit matters if all
configs fail, because `InitialDesign.spread` then chooses the configs of all trials.
"""


class InitialDesign:
    """Initial design of a search: advice, warm starts, and configs that fill the space."""

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
        """True if there is any advice."""
        return bool(self._advice)

    def lasting(self, seen: Observations) -> int:
        """Return the number of trials of the initial design: `DESIGN`, plus one per advised config proposed so far."""
        return DESIGN + len(self._advice & seen.keys)

    def start(self, seen: Observations, *, advice: bool = True) -> Proposal | None:
        """Return the next warm start, default or advised config that was not proposed yet; None if all were proposed.

        The order is: two advised configs, the warm starts, the default config, the remaining advised configs.

        Args:
            seen: observations of the trials so far.
            advice: False to skip the remaining advised configs.
        """
        for key, config, origin in self._starts:
            if key not in seen.keys and (advice or origin != ADVICE):
                return Proposal(config=config, origin=origin)
        return None

    def fruitless(self, seen: Observations) -> bool:
        """Return True if the initial design has ended and no config has worked so far."""
        return len(seen.rows) >= DESIGN and not seen.worked

    def spread(self, seen: Observations, rng: np.random.Generator) -> Proposal | None:
        """Draw a few random new configs, and return the config farthest from all trials; None if all were proposed.

        If the initial design has ended and no config worked, return the config with the most pairs of values that no
        trial had. If only a few configs of the space work, finding one of them requires new pairs of values.
        """
        pairs = self.fruitless(seen)
        drawn = self._space.sample(rng, CANDIDATES_OF_PAIRS if pairs else CANDIDATES, exclude=seen.keys)
        if not drawn:
            return None
        known = np.concatenate([seen.rows, seen.pending])[-LATEST:]
        rows = np.array([self._space.encode(config) for config in drawn])
        apart = np.abs(rows[:, None, :] - known)
        distances = np.where(self._ordinal, apart / self._spans, apart > 0).sum(axis=2)
        nearest = distances.min(axis=1) if len(known) else np.zeros(len(rows))
        new = _new_pairs(apart == 0) if pairs else np.zeros(len(rows))
        best = np.flatnonzero(new == new.max())
        return Proposal(config=drawn[int(best[nearest[best].argmax()])], origin="design")


def _new_pairs(equal: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return for each config the number of its pairs of values that no known config has, shape (configs,).

    Each pair of values of two tunables is counted twice. A single value that no known config has also counts, once.

    Args:
        equal: True where a config and a known config have the same value of a tunable, shape (configs, known,
            tunables).
    """
    same = equal.astype(np.float32)
    together = same.swapaxes(1, 2) @ same
    missing: npt.NDArray[np.int64] = (together == 0).sum(axis=(1, 2))
    return missing


def most_pending(history: History) -> int:
    """Return the maximum number of pending trials; see `FIRST` and `SHARE`."""
    return max(FIRST, int(SHARE * len(history.finished)))


def learning(seen: Observations, lasting: int = DESIGN) -> bool:
    """Return True if the initial design has not ended, or if fewer than `MIN_MEASURED` trials have a time.

    Args:
        lasting: number of trials of the initial design.
    """
    return len(seen.keys) < lasting or seen.measured < MIN_MEASURED
