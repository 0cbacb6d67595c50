"""Optimises two objectives: each proposal minimises a combination of both costs with randomly drawn weights.

The two costs of a config are combined to one: the augmented Chebyshev distance from the point with the best value of
each objective (ParEGO: Knowles, IEEE Trans. Evol. Comput. 10(1), 2006). Each config on the Pareto front has the
smallest distance for some weights. Weighted sums would miss the non-convex parts of the Pareto front.
"""

import math
from collections.abc import Sequence

import numpy as np

from evo.strategy.base import Patient, Strategy
from evo.trial import Proposal, Trial
from evo.trial.history import History
from evo.trial.objective import front

WEIGHTS = 11
"""Number of possible weights, evenly spaced from 0 (only the second objective) to 1 (only the first)."""

AUGMENTED = 0.05
"""Factor of the weighted sum in the distance. Without this term, a config that is worse in one objective and equal in
the other could have the same distance.
"""

LEAST_SPAN = math.log(1.1)
"""Minimum divisor of the distances in one objective. The divisor is the range of this objective's log costs on the
Pareto front; ranges below the minimum are noise.
"""

MOST = 500.0
"""Upper limit of the distance, so that its exponential is a finite number."""


class Joint:
    """Searches for the Pareto front of two objectives with a strategy for one objective."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        weight = int(rng.integers(WEIGHTS)) / (WEIGHTS - 1)
        return self._strategy.propose(scalarised(history, weight), rng)

    def most_pending(self, history: History) -> int | None:
        return self._strategy.most_pending(history) if isinstance(self._strategy, Patient) else None


def scalarised(history: History, weight: float) -> History:
    """Return a copy of the history in which each trial has one cost, the weighted combination of its two costs.

    Args:
        weight: weight of the first objective, from 0 to 1. The second objective has the weight 1 - `weight`.
    """
    costs = {trial.number: _logarithms(trial, history) for trial in history.finished if trial.second_cost is not None}
    if not costs:
        return history
    points = list(costs.values())
    best = [points[index] for index in front(points)]
    ideal, spans = [min(axis) for axis in zip(*best, strict=True)], [_span(axis) for axis in zip(*best, strict=True)]
    weights = (weight, 1.0 - weight)

    def cost_of(trial: Trial) -> float:
        """Return the exponential of the distance: distances may be 0, but strategies compare costs by their ratios."""
        terms = [
            share * (cost - least) / span
            for share, cost, least, span in zip(weights, costs[trial.number], ideal, spans, strict=True)
        ]
        return math.exp(min(max(terms) + AUGMENTED * sum(terms), MOST))

    return history.with_costs(cost_of)


def _logarithms(trial: Trial, history: History) -> tuple[float, float]:
    return math.log(history.cost(trial) or math.inf), math.log(trial.second_cost or math.inf)


def _span(axis: Sequence[float]) -> float:
    return max(max(axis) - min(axis), LEAST_SPAN)
