"""Our strategies for anybody's Optuna study."""

import threading
from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import intersection_search_space
from optuna.study import Study
from optuna.trial import FrozenTrial

from evo.errors import InvalidInput
from evo.strategy import STRATEGIES, Context, build
from evo.strategy.axis import Distributions, axis, space_of
from evo.strategy.told import Told, row_values


class KernelEvoSampler(BaseSampler):
    """Searches a grid of values: never the same config twice while others are left, and only valid ones.

    Trials are told as they end; failed ones (`TrialState.FAIL`) and pruned ones are information. What the space does
    not declare is sampled independently, at random. May be shared by threads (``n_jobs``). With the same seed and one
    job a study repeats exactly.

    Args:
        space: the parameters that are searched together, as Optuna distributions: choices, ints and floats. Floats
            without a step, and ints with more than a thousand values, are searched on 101 points. None: the
            parameters that all completed trials have in common, as Optuna's own samplers do it.
        constraints: expressions in Python syntax over the parameters, e.g. ``"BLOCK * STAGES <= 256"``.
        strategy: one of `evo.strategy.STRATEGIES`; the default one if None.
        seed: None: a different study each time.

    Raises:
        InvalidInput: (a ValueError) a constraint that does not parse or names what is not declared, or when it samples
            for a study with several objectives.
    """

    def __init__(
        self,
        space: Distributions | None = None,
        *,
        constraints: Sequence[str] = (),
        strategy: str | None = None,
        seed: int | None = None,
    ) -> None:
        self._space = None if space is None else dict(space)
        self._constraints = tuple(constraints)
        self._strategy = strategy or next(iter(STRATEGIES))
        self._seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
        self._random = RandomSampler(seed=seed)
        self._lock = threading.Lock()
        self._met: tuple[object, ...] | None = None
        self._study: ref[Study] | None = None
        if self._space is not None:
            _check(space_of([axis(*item, n) for n, item in enumerate(self._space.items())], ()).names, constraints)

    def reseed_rng(self) -> None:
        self._random.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        _check_single_objective(study)
        if self._space is not None:
            return dict(self._space)
        return intersection_search_space(study.get_trials(deepcopy=False), include_pruned=True)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        _check_single_objective(study)
        if not search_space:
            return {}
        with self._lock:
            self._meet(study, search_space)
            history = self._told.read(study.get_trials(deepcopy=False))
            rng = np.random.default_rng((self._seed, trial.number))
            proposal = self._strategist.propose(history, rng)
            if proposal is None:  # every config was asked for: repeats may at least tell the noise
                return row_values(self._axes, self._grid.encode(self._grid.sample(rng, 1)[0]))
            self._told.expect(trial.number, proposal.config)
            return row_values(self._axes, self._grid.encode(proposal.config))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        _check_single_objective(study)
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def _meet(self, study: Study, search_space: dict[str, BaseDistribution]) -> None:
        """Begin anew when it is another study, or another space."""
        key = (study.direction, *search_space.items())
        if key == self._met and self._study is not None and self._study() is study:
            return
        self._axes = [axis(name, distribution, n) for n, (name, distribution) in enumerate(search_space.items())]
        self._grid = space_of(self._axes, self._constraints)
        self._told = Told(self._axes, self._grid, study.direction)
        self._strategist = build(self._strategy, Context(space=self._grid))
        self._met, self._study = key, ref(study)


def _check(names: Sequence[str], constraints: Sequence[str]) -> None:
    from evo.expression import Expression

    for place, text in enumerate(constraints):
        Expression.parse(text, f"constraints[{place}]").check_names(set(names))


def _check_single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise InvalidInput(
            "study", "KernelEvoSampler minimises or maximises one value; this study has several objectives"
        )
