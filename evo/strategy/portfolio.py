"""The default: TPE, evolution and the elites' neighbourhoods suggest, and a surrogate picks what promises most."""

from dataclasses import replace

import numpy as np

from evo.history import History
from evo.strategy.base import Context
from evo.strategy.breeding import Breeding
from evo.strategy.neighbourhood import Neighbourhood
from evo.strategy.observations import Observations
from evo.strategy.opening import DESIGN, Opening, learning, most_pending
from evo.strategy.parzen import Parzen, good_count
from evo.strategy.single_thread import single_thread
from evo.strategy.standpoint import Standpoint, Standpoints
from evo.strategy.suggestions import Suggestions
from evo.strategy.surrogate import Surrogate
from evo.trial import Proposal

ARMS = ("tpe", "evolution", "neighbours")

SUGGESTED = 100
"""Configs that each arm suggests for one proposal."""

BESIDE = 0.5
"""Share of the proposals beside the only config that works, of those after the design that nobody can judge yet."""

CLIMB = 3
"""While others are being evaluated, the surrogate may go so many steps of one change each beyond the best suggestion:
what many workers do at once cannot wait for the step before. A single worker does better to measure each step."""


class Portfolio:
    """Each arm has its own idea of where to look; all are judged alike, by what the trials so far say of them.

    Args:
        arms: those that take part, of `ARMS`.
        climb: most steps from the best suggestion to what the surrogate likes better, while trials are pending.
        surrogate: who judges.
        patient: whether many workers wait for the first results instead of trying what nobody judged.
    """

    def __init__(
        self,
        context: Context,
        *,
        arms: tuple[str, ...] = ARMS,
        climb: int = CLIMB,
        surrogate: Surrogate | None = None,
        patient: bool = True,
    ) -> None:
        self._space = context.space
        self._opening = Opening(context)
        self._parzen = Parzen(context.space)
        self._breeding = Breeding(context.space)
        self._neighbourhood = Neighbourhood(context.space)
        judge = surrogate or Surrogate(context.space)
        self._standpoints = Standpoints(context.space, judge, advised=self._opening.advised)
        self._climb, self._patient = climb, patient
        self._arms = [getattr(self, f"_{arm}") for arm in arms]

    def most_pending(self, history: History) -> int | None:
        return most_pending(history) if self._patient else None

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        points = self._standpoints
        points.refresh(history)
        if start := self._opening.start(points.whole.seen, advice=not points.refuted):
            return start
        lasting = self._opening.lasting(points.whole.seen)
        by = points.at(len(history.asked) - lasting)
        if learning(by.seen, lasting):
            return self._explored(by.seen, rng)
        return self._judged(by, rng)

    def _explored(self, seen: Observations, rng: np.random.Generator) -> Proposal | None:
        """What lies far from all that was tried; where hardly anything works, half of the time beside what does."""
        if len(seen.keys) >= DESIGN and seen.measured and rng.random() < BESIDE:
            around = self._neighbours(seen, rng)
            new = around.take(seen.fresh(around.rows))
            if len(new.rows):
                return new.proposal(int(rng.integers(len(new.rows))), self._space, seen)
        return self._opening.spread(self._standpoints.independent.seen, rng)

    def _judged(self, by: Standpoint, rng: np.random.Generator) -> Proposal | None:
        """What promises most of all that the arms suggest, or a random config if that is nothing new."""
        seen = by.seen
        suggested = Suggestions.joined([arm(seen, rng) for arm in self._arms])
        new = suggested.take(seen.fresh(suggested.rows))
        if not len(new.rows):
            return self._opening.spread(self._standpoints.independent.seen, rng)
        with single_thread():
            return self._best(new, by, rng)

    def _best(self, new: Suggestions, by: Standpoint, rng: np.random.Generator) -> Proposal:
        """The most promising suggestion, or what is better still some steps away from it."""
        outlook = by.surrogate.learn(by.seen)
        worth = outlook.forecast(new.rows).improvement
        start = new.take(np.array([worth.argmax()]))
        row, best = start.rows[0], worth.max()
        for _ in range(self._climb if len(by.seen.pending) else 0):
            around = self._neighbourhood.around(row, rng)
            around = around[by.seen.fresh(around)]
            worth = outlook.forecast(around).improvement
            if not worth.max(initial=-np.inf) > best:
                break
            row, best = around[worth.argmax()], worth.max()
        proposal = replace(start, rows=row[None, :]).proposal(0, self._space, by.seen)
        return proposal if by.origin is None else replace(proposal, origin=by.origin)

    def _tpe(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        good = seen.order[: good_count(seen)]
        return Suggestions.orphans(self._parzen.draw(seen.rows[good], SUGGESTED, rng), "tpe")

    def _evolution(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return self._breeding.brood(seen, SUGGESTED, rng)

    def _neighbours(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return self._neighbourhood.of_elites(seen, rng)
