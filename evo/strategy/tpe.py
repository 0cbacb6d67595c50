"""Optuna's multivariate TPE over the valid set.

Only its density estimators are used. `optuna.samplers.TPESampler` itself proposes what the constraints forbid and what
was tried before, and each ask walks the whole study again: 5 ms at 300 trials of 10 tunables, 1.4 ms here. Every
tunable is categorical to it: its ordinal kernels get so narrow on a grid that valid and new draws run out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evo.history import History
from evo.space import Indices
from evo.strategy.base import Context
from evo.strategy.observations import Observations, Places
from evo.strategy.parzen import good_count
from evo.trial import Proposal

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator

STARTUP = 10
"""Random trials before the first estimate, Optuna's default."""

DRAWN = 128
CANDIDATES = 24
"""Configs drawn from the density of the good ones; so many that are valid and new are compared, Optuna's default."""


class Tpe:
    """Good and bad configs by rank alone; failures are the worst, pending configs count as bad (constant liar)."""

    def __init__(self, context: Context) -> None:
        from optuna.distributions import CategoricalDistribution  # a second to import, so only where it is wanted

        self._space = context.space
        self._seen = Observations(context.space)
        self._distributions: dict[str, BaseDistribution] = {
            tunable.name: CategoricalDistribution(range(len(tunable.values))) for tunable in context.space.tunables
        }

    def propose(self, history: History, rng: np.random.Generator) -> Proposal | None:
        self._seen.refresh(history)
        row = None if self._seen.measured < STARTUP else self._estimated(rng)
        if row is not None:
            return Proposal(config=self._space.decode(row), origin="tpe")
        drawn = self._space.sample(rng, 1, exclude=self._seen.keys)
        return Proposal(config=drawn[0], origin="random") if drawn else None

    def _estimated(self, rng: np.random.Generator) -> Indices | None:
        seen, count = self._seen, good_count(self._seen)
        good = self._estimator(seen.rows[_by_age(seen.order[:count], seen)])
        bad = self._estimator(np.concatenate([seen.rows[_by_age(seen.order[count:], seen)], seen.pending]))
        drawn = good.sample(np.random.RandomState(int(rng.integers(1 << 32))), DRAWN)
        rows = np.column_stack([drawn[name] for name in self._space.names]).astype(np.int32)
        rows = rows[seen.fresh(rows)[:CANDIDATES]]
        if not len(rows):
            return None
        columns = dict(zip(self._space.names, rows.T, strict=True))
        best: Indices = rows[int(np.argmax(good.log_pdf(columns) - bad.log_pdf(columns)))]
        return best

    def _estimator(self, rows: Indices) -> "_ParzenEstimator":
        from optuna.samplers._tpe.parzen_estimator import _ParzenEstimator, _ParzenEstimatorParameters
        from optuna.samplers._tpe.sampler import default_weights

        parameters = _ParzenEstimatorParameters(
            prior_weight=1.0,
            consider_magic_clip=True,
            consider_endpoints=False,
            weights=default_weights,
            multivariate=True,
        )
        return _ParzenEstimator(dict(zip(self._space.names, rows.T, strict=True)), self._distributions, parameters)


def _by_age(places: Places, seen: Observations) -> Sequence[int]:
    """Oldest first: Optuna's weights let the oldest observations fade."""
    return sorted(places.tolist(), key=seen.numbers.__getitem__)
