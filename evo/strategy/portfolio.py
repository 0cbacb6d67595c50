"""The default strategy: several operators suggest configs, and a surrogate model picks the most promising config."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from evo.strategy.base import Context, strategy
from evo.strategy.parts.advice import LogView, LogViews
from evo.strategy.parts.breeding import Breeding
from evo.strategy.parts.initial_design import InitialDesign, learning, most_pending
from evo.strategy.parts.neighbourhood import CENTRES, Neighbourhood
from evo.strategy.parts.niches import Niches
from evo.strategy.parts.observations import Observations, Places
from evo.strategy.parts.parzen import Parzen, good_count
from evo.strategy.parts.relinking import Relinking
from evo.strategy.parts.suggestions import Suggestions
from evo.strategy.parts.surrogate import Surrogate, single_thread
from evo.trial import Proposal
from evo.trial.history import History

Arm: TypeAlias = Callable[[Observations, np.random.Generator], Suggestions]

ARMS = ("tpe", "evolution", "neighbours", "fresh")

STAGNANT = 16
"""The search stagnates if at least this number of trials have ended since the best trial."""

NICHE_EVERY = 3
"""Every `NICHE_EVERY`-th proposal is for a niche, until all niches have used their quotas of trials."""

SUGGESTED = 100
"""Number of configs that TPE and evolution each suggest per proposal, and number of random configs if the search
stagnates.
"""

NEIGHBOUR_SHARE = 0.5
"""Fraction of proposals near working configs after the initial design, while the surrogate has too few timed trials.
"""


@strategy("portfolio")
class Portfolio:
    """Proposes the config that a surrogate model finds most promising among the suggestions of several arms.

    An arm is a generator of suggestions: TPE, evolution, neighbours of elites, or random configs.

    Args:
        arms: names of the arms to use, from `ARMS`.
        surrogate: model that ranks the suggestions.
        patient: True to limit the number of pending trials, so that later trials can use more results.
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
        self._initial_design = InitialDesign(context)
        self._parzen = Parzen(context.space)
        self._breeding = Breeding(context.space)
        relinking = Relinking(context.space)
        self._neighbourhood = Neighbourhood(context.space, relinking)
        self._niches = Niches(context.space, relinking, self._neighbourhood, self._breeding)
        judge = surrogate or Surrogate(context.space)
        self._views = LogViews(context.space, judge, advised=self._initial_design.advised)
        self._patient = patient
        self._arms: list[Arm] = [getattr(self, f"_{arm}") for arm in arms]

    def most_pending(self, history: History) -> int | None:
        return most_pending(history) if self._patient else None

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        views = self._views
        views.refresh(history)
        if start := self._initial_design.start(views.whole.seen, advice=not views.refuted):
            return start
        lasting = self._initial_design.lasting(views.whole.seen)
        view = views.at(len(history.asked) - lasting)
        if learning(view.seen, lasting):
            return self._explored(view.seen, lasting, rng)
        if len(history.asked) % NICHE_EVERY == 0 and (proposal := self._niche(view, rng)):
            return proposal
        return self._judged(view, rng)

    def _explored(self, seen: Observations, lasting: int, rng: np.random.Generator) -> Proposal | None:
        """Return a config that is far from all trials; None if all configs were proposed.

        If the initial design has ended, but too few configs work, about half of the proposals are near working configs.
        """
        if len(seen.keys) >= lasting and seen.measured and rng.random() < NEIGHBOUR_SHARE:
            new = _new([self._neighbours], seen, rng)
            if len(new.rows):
                return new.proposal(int(rng.integers(len(new.rows))), self._space, seen)
        return self._initial_design.spread(self._views.independent.seen, rng)

    def _judged(self, view: LogView, rng: np.random.Generator) -> Proposal | None:
        """Return the most promising new suggestion of the arms or, if none is new, a config far from all trials.

        The result is None if all configs were proposed.
        """
        new = _new(self._arms, view.seen, rng)
        if not len(new.rows):
            return self._initial_design.spread(self._views.independent.seen, rng)
        return self._best(new, view)

    def _niche(self, view: LogView, rng: np.random.Generator) -> Proposal | None:
        """Return the most promising new config of the niche that should get the next trial; None if there is none."""
        due = self._niches.due(view.seen, rng)
        if due is None:
            return None
        new = due.configs.take(view.seen.fresh(due.configs.rows))
        return self._best(new, view, rivals=due.rivals) if len(new.rows) else None

    def _best(self, new: Suggestions, view: LogView, *, rivals: Places | None = None) -> Proposal:
        with single_thread():
            worth = view.surrogate.learn(view.seen, rivals=rivals).forecast(new.rows).improvement
        proposal = new.proposal(int(worth.argmax()), self._space, view.seen)
        return proposal if view.origin is None else replace(proposal, origin=view.origin)

    def _tpe(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        good = seen.order[: good_count(seen)]
        return Suggestions.orphans(self._parzen.draw(seen.rows[good], SUGGESTED, rng), "tpe")

    def _evolution(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return self._breeding.brood(seen, SUGGESTED, rng)

    def _fresh(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        """Return one random config, or many if the search stagnates and the best configs may be far from the elites.

        While the elites still improve, random configs waste trials: if many are always suggested, the benchmark score
        P100 (see docs/results/search.md) falls from 0.879 to 0.860.
        """
        stagnant = len(seen.rows) - int(seen.order[0]) > STAGNANT
        return Suggestions.orphans(self._space.varied(rng, SUGGESTED if stagnant else 1), "fresh")

    def _neighbours(self, seen: Observations, rng: np.random.Generator) -> Suggestions:
        return self._neighbourhood.of(seen.elites[:CENTRES], seen, rng)


def _new(arms: Sequence[Arm], seen: Observations, rng: np.random.Generator) -> Suggestions:
    """Return the suggestions of the arms that are valid and were not proposed before."""
    suggested = Suggestions.joined([arm(seen, rng) for arm in arms])
    return suggested.take(seen.fresh(suggested.rows))
