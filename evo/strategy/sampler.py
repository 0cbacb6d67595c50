"""An Optuna sampler that uses kernel-evo's strategies in any Optuna study."""

import threading
import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any
from weakref import ref

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study
from optuna.trial import FrozenTrial

from evo.errors import InvalidInput
from evo.space import EmptySpace, Space
from evo.space.expression import Expression
from evo.space.space import MAX_TUNABLES
from evo.strategy import STRATEGIES, Context, build
from evo.strategy.study.adapter import PROPOSED, StudyReader, row_values
from evo.strategy.study.axis import Axis, Distributions, axes_of, space_of


class KernelEvoSampler(BaseSampler):
    """Searches a grid of values with a kernel-evo strategy.

    The sampler proposes only valid configs. It repeats a config only if the trial that got it did not use it, or after
    all configs were proposed. It learns from complete, failed (`TrialState.FAIL`) and pruned trials. Parameters that
    are not in `space` are sampled at random, independently of each other. Two configs that differ only in a parameter
    which a trial does not use count as different.

    Threads may share a sampler (``n_jobs``), and it can be pickled. With the same seed and one job, a study can be
    repeated exactly. The proposed config is stored with the trial (`PROPOSED`), so that resumed studies, and other
    processes with the same storage, can read it. Two processes that ask at the same moment may get the same config.

    Args:
        space: parameters that are searched together, as Optuna distributions (choices, ints or floats) by name. If a
            float has no step, or a number has over a thousand values, at most 1,001 of its values are searched. A
            parameter that a trial does not suggest, e.g. a conditional one, is assumed to have no effect on this trial.
            If `space` is None, the parameters that all completed and pruned trials share are searched (at most 64).
        constraints: expressions over the parameters in Python syntax, e.g. ``"BLOCK * STAGES <= 256"``.
        strategy: one of `evo.strategy.STRATEGIES`. If None, the default strategy is used.
        seed: seed of the random generator. If None, each study is different.

    Raises:
        InvalidInput: (a ValueError) a parameter cannot be represented by a grid; a constraint is not an expression,
            contains an undeclared parameter, compares values that have no order, or leaves no config; the strategy is
            unknown; or, during sampling, the study has several objectives.
    """

    _declared: tuple[list[Axis], Space] | None

    def __init__(
        self,
        space: Distributions | None = None,
        *,
        constraints: Sequence[str] = (),
        strategy: str | None = None,
        seed: int | None = None,
    ) -> None:
        _check_kinds(space, constraints, seed)
        self._space = None if space is None else dict(space)
        self._constraints = tuple(constraints)
        self._strategy = next(iter(STRATEGIES)) if strategy is None else strategy
        self._seed = _random_seed() if seed is None else seed
        self._warned: set[str] = set()
        if not isinstance(self._strategy, str) or self._strategy not in STRATEGIES:
            raise InvalidInput("strategy", f"`{strategy}` is not one of {', '.join(STRATEGIES)}")
        self._forget()
        if self._space is not None:
            _check(axes_of(self._space), self._constraints)
            self._declared = self._grid_of(self._space)

    def _forget(self) -> None:
        """Clear the state that is rebuilt from the space and the trials of a study."""
        self._lock = threading.Lock()
        self._met: tuple[object, ...] | None = None
        self._study: ref[Study] | None = None
        self._declared = None

    def _grid_of(self, search_space: Distributions) -> tuple[list[Axis], Space]:
        """Return the axes and the space of the parameters. For declared parameters, both are built only once."""
        if self._declared is not None and search_space == self._space:
            return self._declared
        axes = axes_of(search_space)
        try:
            return axes, space_of(axes, self._constraints)
        except EmptySpace as error:
            raise EmptySpace(error.field, error.found, (*error.remedies, "relax the constraints")) from None

    def __getstate__(self) -> dict[str, Any]:
        lasting = ("_space", "_constraints", "_strategy", "_seed", "_warned")
        return {name: self.__dict__[name] for name in lasting}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def reseed_rng(self) -> None:
        self._seed = _random_seed()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        _check_single_objective(study)
        if self._space is not None:
            return dict(self._space)
        with self._lock:
            common = self._of_study(study).calculate(study)
        return dict(islice(common.items(), MAX_TUNABLES))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        _check_single_objective(study)
        if not search_space:
            return {}
        with self._lock:
            self._clear_if_changed(study, search_space)
            history = self._told.read(study.get_trials(deepcopy=False))
            rng = np.random.default_rng((self._seed, trial.number))
            config = self._told.unmet(most=1)
            if config is None and (proposal := self._strategist.propose(history, rng)) is not None:
                config = proposal.config
            config = config or self._told.unmet()
            if config is None:  # all configs were proposed, but a sampler must return one
                return row_values(self._axes, self._grid.encode(self._grid.sample(rng, 1)[0]))
            self._told.expect(trial.number, config)
            study._storage.set_trial_system_attr(trial._trial_id, PROPOSED, self._told.note(config))
            return row_values(self._axes, self._grid.encode(config))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        _check_single_objective(study)
        self._warn_if_redeclared(param_name, param_distribution)
        seed = np.random.SeedSequence((self._seed, trial.number, *param_name.encode())).generate_state(1)
        return RandomSampler(int(seed[0])).sample_independent(study, trial, param_name, param_distribution)

    def _warn_if_redeclared(self, name: str, suggested: BaseDistribution) -> None:
        """Warn once for each parameter that a trial suggests with a different distribution than declared."""
        if self._space is None or name in self._warned:
            return
        self._warned.add(name)
        declared = self._space.get(name)
        as_what = "is not declared" if declared is None else f"is suggested as {suggested}, but declared as {declared}"
        warnings.warn(
            f"`{name}` {as_what}: it is sampled at random, and neither the strategy nor the constraints use it",
            stacklevel=2,
        )

    def _of_study(self, study: Study) -> IntersectionSearchSpace:
        """Return Optuna's object that finds the parameters which all completed and pruned trials of a study share.

        The object is kept while the study stays the same, because it reads each trial only once.
        """
        if self._study is None or self._study() is not study:
            self._common = IntersectionSearchSpace(include_pruned=True)
            self._met, self._study = None, ref(study)
        return self._common

    def _clear_if_changed(self, study: Study, search_space: dict[str, BaseDistribution]) -> None:
        self._of_study(study)
        key = (study.direction, *search_space.items())
        if key == self._met:
            return
        self._axes, self._grid = self._grid_of(search_space)
        _warn_of_unknown(self._axes, self._constraints)
        self._told = StudyReader(self._axes, self._grid, study.direction)
        self._strategist = build(self._strategy, Context(space=self._grid))
        self._met = key


def _random_seed() -> int:
    return int(np.random.SeedSequence().generate_state(1)[0])


def _check_kinds(space: object, constraints: object, seed: object) -> None:
    """Check the types of the arguments. The messages are detailed because studies are often set up interactively."""
    if isinstance(constraints, str):
        raise InvalidInput("constraints", f"must be a sequence of strings, not one string; pass [{constraints!r:.100}]")
    if not isinstance(constraints, Sequence) or not all(isinstance(each, str) for each in constraints):
        raise InvalidInput("constraints", f"expected a sequence of strings, got {constraints!r:.100}")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0):
        raise InvalidInput("seed", f"expected a whole number of at least 0, or None, got {seed!r:.100}")
    if space is None:
        return
    if not isinstance(space, Mapping):
        raise InvalidInput("space", f"expected a dict from parameter names to Optuna distributions, got {space!r:.100}")
    for name, each in space.items():
        if not isinstance(name, str) or not isinstance(each, BaseDistribution):
            expected = "expected a string as the name and an Optuna distribution as the value"
            raise InvalidInput(f"space[{name!r}]", f"{expected}, got {name!r}: {each!r}")


def _check(axes: Sequence[Axis], constraints: Sequence[str]) -> None:
    incomparable = {each.tunable.name for each in axes if each.by_index}
    for index, text in enumerate(constraints):
        expression = Expression.parse(text, f"constraints[{index}]")
        expression.check_names({each.tunable.name: each.tunable.values for each in axes})
        if wrong := sorted(expression.names & incomparable):
            raise InvalidInput(
                f"constraints[{index}]",
                f"`{wrong[0]}` has choices that constraints cannot compare (several types, None, or strings with "
                "spaces); use only numbers, or only words",
            )


def _warn_of_unknown(axes: Sequence[Axis], constraints: Sequence[str]) -> None:
    names = {each.tunable.name for each in axes}
    for index, text in enumerate(constraints):
        if unknown := sorted(Expression.parse(text, f"constraints[{index}]").names - names):
            warnings.warn(
                f"constraints[{index}] is not checked, because not all completed trials have the parameter "
                f"`{unknown[0]}`; declare the parameters with `space` to check the constraint",
                stacklevel=2,
            )


def _check_single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise InvalidInput(
            "study", "has several objectives, but KernelEvoSampler supports only one; use a study with one direction"
        )
