"""Converts a parameter of an Optuna study to a tunable. Its distribution becomes a grid of values."""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from evo.errors import InvalidInput
from evo.space import Constraint, Space, Tunable
from evo.space.expression import Expression
from evo.space.space import MAX_TUNABLES
from evo.space.tunable import NAME

Distributions: TypeAlias = Mapping[str, BaseDistribution]

POINTS = 1_001
"""Maximum number of grid points of a float without a step, and of any number with more than `MAX_INTS` values."""

MAX_INTS = 1_000

LARGEST_INT = 2**53
"""Magnitude up to which a float represents every whole number."""


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A parameter of a study, and its tunable.

    Attributes:
        values: Optuna's values, in the order of the grid.
        tunable: tunable with the same values. If a tunable cannot have these values (mixed types, None), it has their
            indices instead.
    """

    name: str
    values: tuple[Any, ...]
    tunable: Tunable

    @property
    def by_index(self) -> bool:
        """True if the tunable's values are indices. Constraints then cannot compare the parameter's values."""
        return not all(_same(*pair) for pair in zip(self.values, self.tunable.values, strict=True))

    def index(self, value: Any) -> int | None:
        """Return the index of a value, or of the grid point nearest to a number; None if it is outside the grid."""
        if not self.tunable.ordinal:
            return next((index for index, known in enumerate(self.values) if _same(known, value)), None)
        if not isinstance(value, Real):
            return None  # in this trial, the parameter has a different type
        if not self.values[0] <= value <= self.values[-1]:
            return None
        above = bisect.bisect_left(self.values, value)
        near = [index for index in (above - 1, above) if 0 <= index < len(self.values)]
        return min(near, key=lambda index: abs(self.values[index] - value))


def axes_of(distributions: Distributions) -> list[Axis]:
    """Return an axis, with a grid of values, for each parameter.

    Raises:
        InvalidInput: a parameter cannot be represented by a grid, or there are no parameters or more than
            `MAX_TUNABLES`.
    """
    if not distributions:
        raise InvalidInput(
            "space", "has no parameters; declare some, or pass None to search the parameters that all trials share"
        )
    if len(distributions) > MAX_TUNABLES:
        raise InvalidInput(
            "space",
            f"has {len(distributions)} parameters; at most {MAX_TUNABLES} are searched together. Leave some out; "
            "these are then sampled independently",
        )
    return [axis(name, each, _label(name, n, distributions)) for n, (name, each) in enumerate(distributions.items())]


def _label(name: str, index: int, others: Distributions) -> str:
    """Return the tunable's name: the parameter's name if it is valid for a tunable, else a new name."""
    label = name if NAME.fullmatch(name) else f"parameter_{index}"
    while label != name and label in others:
        label += "_"
    return label


def axis(name: str, distribution: BaseDistribution, label: str) -> Axis:
    """Return the axis of a parameter: its distribution as a grid of values, and a tunable.

    Args:
        name: name of the parameter.
        distribution: distribution of the parameter.
        label: name of the tunable.

    Raises:
        InvalidInput: the distribution is not one of Optuna's three kinds, or has values that a grid cannot contain.
    """
    values: tuple[float, ...]
    _check(name, distribution)
    match distribution:
        case CategoricalDistribution():
            return Axis(name=name, values=distribution.choices, tunable=_choices(label, distribution.choices))
        case IntDistribution():
            values = _integers(distribution)
        case FloatDistribution():
            values = _real(distribution)
        case _:
            kind = type(distribution).__name__
            raise InvalidInput(name, f"must be an int, float or categorical distribution, not {kind}")
    return Axis(name=name, values=values, tunable=Tunable(name=label, values=values, ordinal=True))


def _check(name: str, distribution: BaseDistribution) -> None:
    field = f"space[{name!r}]"
    if isinstance(distribution, CategoricalDistribution):
        if any(isinstance(choice, float) and math.isnan(choice) for choice in distribution.choices):
            raise InvalidInput(field, "contains nan, which no result can be assigned to, as nan != nan; remove it")
    elif isinstance(distribution, IntDistribution):
        if max(abs(distribution.low), abs(distribution.high)) > LARGEST_INT:
            raise InvalidInput(
                field, "the bounds must be from -2**53 to 2**53; narrow them, or use a float distribution"
            )
    elif isinstance(distribution, FloatDistribution) and not math.isfinite(distribution.high - distribution.low):
        raise InvalidInput(field, "the difference of the bounds must fit in a float; choose narrower bounds")


def _choices(label: str, choices: Sequence[Any]) -> Tunable:
    try:
        return Tunable(name=label, values=choices, ordinal=False)
    except InvalidInput:
        return Tunable(name=label, values=range(len(choices)), ordinal=False)


def _integers(distribution: IntDistribution) -> tuple[int, ...]:
    low, high, step = distribution.low, distribution.high, distribution.step
    if (high - low) // step < MAX_INTS:
        return tuple(range(low, high + 1, step))
    points = np.geomspace(low, high, POINTS) if distribution.log else np.linspace(low, high, POINTS)
    steps = np.unique(np.rint((points - low) / step).astype(np.int64)).tolist()
    return tuple(low + each * step for each in steps)


def _real(distribution: FloatDistribution) -> tuple[float, ...]:
    low, high = distribution.low, distribution.high
    if distribution.step is not None:
        first, step = (
            Decimal(str(low)),
            Decimal(str(distribution.step)),
        )  # exact, so that 0.3 in a constraint equals a value
        count = round((high - low) / distribution.step) + 1
        most = count if count <= MAX_INTS else POINTS
        steps = np.unique(np.rint(np.linspace(0, count - 1, most)).astype(np.int64)).tolist()
        return tuple(min(float(first + each * step), high) for each in steps)
    points = np.geomspace(low, high, POINTS) if distribution.log else np.linspace(low, high, POINTS)
    return tuple(np.unique(points.clip(low, high)).tolist())


def _same(known: Any, value: Any) -> bool:
    return type(known) is type(value) and bool(known == value)


def space_of(axes: Sequence[Axis], constraints: Sequence[str]) -> Space:
    """Return the space of the given axes. Constraints with a parameter that has no axis are ignored."""
    names = {each.tunable.name for each in axes}
    parsed = [Expression.parse(text, f"constraints[{index}]") for index, text in enumerate(constraints)]
    return Space(
        [each.tunable for each in axes],
        [Constraint(expression=expression) for expression in parsed if expression.names <= names],
    )
