"""Compares the sampler with Optuna's TPE on functions of real parameters."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, TPESampler

from evo.strategy.sampler import KernelEvoSampler

SHARE = 0.1
"""Fraction of the seeds that are run."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function to minimise.

    Attributes:
        bounds: bounds of each parameter.
        optimum: minimum of the function.
    """

    value: Callable[[Sequence[float]], float]
    bounds: Sequence[tuple[float, float]]
    optimum: float
    trials: int


def branin(x: Sequence[float]) -> float:
    """Return the Branin function (https://www.sfu.ca/~ssurjano/branin.html)."""
    a, b = x
    return (
        (b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6) ** 2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10
    )


_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(x: Sequence[float]) -> float:
    """Return the six-dimensional Hartmann function (https://www.sfu.ca/~ssurjano/hart6.html)."""
    return -float(np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-(_A * (np.asarray(x) - _P) ** 2).sum(axis=1)))


def rosenbrock(x: Sequence[float]) -> float:
    """Return the Rosenbrock function (https://www.sfu.ca/~ssurjano/rosen.html)."""
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in pairwise(x))


def _raised(function: Callable[[Sequence[float]], float], by: float) -> Callable[[Sequence[float]], float]:
    return lambda x: function(x) + by


TWO = (-2.0, 2.0)
FUNCTIONS = {
    "Branin, 2 parameters": Function(value=branin, bounds=((-5, 10), (0, 15)), optimum=0.397887, trials=150),
    "Hartmann + 5, 6": Function(value=_raised(hartmann, 5), bounds=((0, 1),) * 6, optimum=1.67763, trials=100),
    "Rosenbrock + 1000, 4": Function(value=_raised(rosenbrock, 1000), bounds=(TWO,) * 4, optimum=1000, trials=150),
    "Rosenbrock + 1000, 2": Function(value=_raised(rosenbrock, 1000), bounds=(TWO,) * 2, optimum=1000, trials=60),
    "Rosenbrock, 2": Function(value=rosenbrock, bounds=(TWO,) * 2, optimum=0, trials=60),
}

Sampler = Callable[[Mapping[str, BaseDistribution], int], BaseSampler]
SAMPLERS: dict[str, Sampler] = {
    "KernelEvoSampler": lambda space, seed: KernelEvoSampler(space, seed=seed),
    "KernelEvoSampler, without declared space": lambda space, seed: KernelEvoSampler(seed=seed),
    "Optuna TPE, multivariate": lambda space, seed: TPESampler(multivariate=True, seed=seed),
}


def compare(seeds: int) -> dict[str, dict[str, float]]:
    """Return the median distance of the best value from the optimum, by sampler and function."""
    return {
        name: {
            what: float(np.median([_best(function, sampler, seed) - function.optimum for seed in range(seeds)]))
            for what, function in FUNCTIONS.items()
        }
        for name, sampler in SAMPLERS.items()
    }


def _best(function: Function, sampler: Sampler, seed: int) -> float:
    space = {f"x{index}": FloatDistribution(*bounds) for index, bounds in enumerate(function.bounds)}

    def objective(trial: optuna.Trial) -> float:
        return function.value([trial.suggest_float(name, each.low, each.high) for name, each in space.items()])

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna warns that the multivariate option is experimental
        study = optuna.create_study(sampler=sampler(space, seed))
    study.optimize(objective, n_trials=function.trials)
    return study.best_value
