"""The default: warm starts, a small design, then TPE and evolution sharing the elites, as they earn it."""

import numpy as np

from evo.history import History
from evo.strategy.base import Context
from evo.strategy.breeding import Breeding, restarting
from evo.strategy.observations import Observations
from evo.strategy.opening import Opening, learning
from evo.strategy.parzen import Parzen, good_count
from evo.trial import Proposal

DRAWN = 120
"""Configs an operator suggests for one proposal …"""

SCREENED = 20
"""… of which the first so many that are valid and new are compared. More would follow the model, fewer the operator."""

ARMS = {"tpe": ("tpe",), "evolution": ("crossover", "mutation")}
"""Who shares the trials, and the origins that count for each."""

DISCOUNT = 0.95
"""What a trial counts for the credit when one more has ended since."""

FLOOR = 0.2
"""Share of the trials an arm keeps however little it earns, so that it can prove itself later."""


class Portfolio:
    """Either arm suggests, the density model of `evo.strategy.parzen` picks the most promising suggestion."""

    def __init__(self, context: Context) -> None:
        self._space = context.space
        self._seen = Observations(context.space)
        self._opening = Opening(context)
        self._breeding = Breeding(context.space)
        self._parzen = Parzen(context.space)

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        seen = self._seen
        seen.refresh(history)
        if start := self._opening.start(seen):
            return start
        if learning(seen) or restarting(seen):
            return self._opening.spread(seen, rng)
        shares = credit(seen)
        arm = rng.choice(list(shares), p=list(shares.values()))
        suggestion = self._drawn(rng) if arm == "tpe" else self._bred(rng)
        return suggestion or self._opening.spread(seen, rng)

    def _drawn(self, rng: np.random.Generator) -> Proposal | None:
        good = self._seen.order[: good_count(self._seen)]
        rows = self._parzen.draw(self._seen.rows[good], DRAWN, rng)
        best = self._parzen.best(rows, self._seen, SCREENED)
        return None if best is None else Proposal(config=self._space.decode(rows[best]), origin="tpe")

    def _bred(self, rng: np.random.Generator) -> Proposal | None:
        brood = self._breeding.brood(self._seen, DRAWN, rng)
        best = self._parzen.best(brood.rows, self._seen, SCREENED)
        return None if best is None else brood.proposal(best, self._space, self._seen)


def credit(seen: Observations) -> dict[str, float]:
    """Each arm's share, by how often its recent trials became elites (uniform prior), never below the floor."""
    recency = DISCOUNT ** np.arange(len(seen.origins))[::-1]
    won = recency * seen.entered
    rates = {}
    for arm, origins in ARMS.items():
        own = np.isin(seen.origins, origins)
        rates[arm] = (won[own].sum() + 1) / (recency[own].sum() + 2)
    total = sum(rates.values())
    return {arm: float(FLOOR + (1 - FLOOR * len(ARMS)) * rate / total) for arm, rate in rates.items()}
