"""The default: TPE, evolution and the elites' neighbourhoods suggest, and a surrogate picks what promises most."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.advice import Standpoint, Standpoints
from evo.strategy.parts.breeding import Breeding
from evo.strategy.parts.initial_design import Opening, learning, most_pending
from evo.strategy.parts.neighbourhood import Neighbourhood
from evo.strategy.parts.observations import Observations
from evo.strategy.parts.parzen import Parzen, good_count
from evo.strategy.parts.single_thread import single_thread
from evo.strategy.parts.suggestions import Suggestions
from evo.strategy.parts.surrogate import Surrogate
from evo.trial import Proposal
from evo.trial.history import History

Arm: TypeAlias = Callable[[Observations, np.random.Generator], Suggestions]

ARMS = ("tpe", "evolution", "neighbours", "fresh")

STAGNANT = 16
"""Trials that ended since the best one did, from which on random valid configs are suggested as well."""

SUGGESTED = 100
"""Configs that each arm suggests for one proposal."""

BESIDE = 0.5
"""Share of the proposals beside the only config that works, of those after the design that nobody can judge yet."""


@strategy("portfolio")
class Portfolio:
    """Each arm has its own idea of where to look; all are judged alike, by what the trials so far say of them.

    Args:
        arms: those that take part, of `ARMS`.
        surrogate: who judges.
        patient: whether many workers wait for the first results instead of trying what nobody judged.
    """

    def __init__(
        self,
        context: Context,
        *,
        arms: tuple[str, ...] = ARMS,
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
        self._patient = patient
        self._arms: list[Arm] = [getattr(self, f"_{arm}") for arm in arms]

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
            return self._explored(by.seen, lasting, rng)
        return self._judged(by, rng)

    def _explored(self, seen: Observations, lasting: int, rng: np.random.Generator) -> Proposal | None:
        """What lies far from all that was tried; where hardly anything works, half of the time beside what does."""
        if len(seen.keys) >= lasting and seen.measured and rng.random() < BESIDE:
            new = _new([self._neighbours], seen, rng)
            if len(new.rows):
                return new.proposal(int(rng.integers(len(new.rows))), self._space, seen)
        return self._opening.spread(self._standpoints.independent.seen, rng)

    def _judged(self, by: Standpoint, rng: np.random.Generator) -> Proposal | None:
        """What promises most of all that the arms suggest, or a random config if that is nothing new."""
        new = _new(self._arms, by.seen, rng)
        if not len(new.rows):
            return self._opening.spread(self._standpoints.independent.seen, rng)
        with single_thread():
            worth = by.surrogate.learn(by.seen).forecast(new.rows).improvement
        proposal = new.proposal(int(worth.argmax()), self._space, by.seen)
        return proposal if by.origin is None else replace(proposal, origin=by.origin)

    def _tpe(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        good = seen.order[: good_count(seen)]
        return Suggestions.orphans(self._parzen.draw(seen.rows[good], SUGGESTED, rng), "tpe")

    def _evolution(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return self._breeding.brood(seen, SUGGESTED, rng)

    def _fresh(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        """Random valid configs once the search stagnates: the surrogate may favour a region that no elite leads to.

        While the elites still lead on, they would cost trials: taking part always lowers P100 of the recorded spaces
        from 0.879 to 0.860.
        """
        stagnant = len(seen.rows) - int(seen.order[0]) > STAGNANT
        return Suggestions.orphans(self._space.draw(rng, SUGGESTED if stagnant else 1), "fresh")

    def _neighbours(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return self._neighbourhood.of_elites(seen, rng)


def _new(arms: Sequence[Arm], seen: Observations, rng: np.random.Generator) -> Suggestions:
    """What these arms suggest, less what is invalid or was asked before."""
    suggested = Suggestions.joined([arm(seen, rng) for arm in arms])
    return suggested.take(seen.fresh(suggested.rows))
