"""Finds extents of tensors as expressions over a file's constants, by running the file with different values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TypeAlias

from evo.space.expression import Expression

Values: TypeAlias = Mapping[str, int]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
"""Shapes of all tensors, in a fixed order."""

Probe: TypeAlias = Callable[[Values], Shapes | None]
"""Returns the shapes for given values of the constants; None if the file does not run with them."""

_LARGEST = 10**6
_TRIES = 3
_MOST_PARTS = 64
"""Largest divisor that is tried for an extent, e.g. the stride of a window."""


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Constants that may vary, and the shapes as expressions over these constants.

    Attributes:
        fields: values that the file assigns to the constants, by name.
        shapes: an expression for each extent of each tensor.
    """

    fields: Mapping[str, int]
    shapes: tuple[tuple[str, ...], ...]


def fitted(constants: Values, probe: Probe) -> Fitted | None:
    """Return the shapes as expressions over constants of the file; None if the file does not run.

    A constant stays fixed if it affects no extent, if it also affects the number of axes, if the file does not run with
    a different value, or if no expression over it fits the extents.

    Args:
        constants: values of the constants in the file.
        probe: function that returns the shapes for given constants.
    """
    base = probe({})
    if base is None:
        return None
    fields = {name: value for name, value in constants.items() if _varies(name, value, base, probe)}
    while True:
        found, wrong = _expressions(base, fields, probe)
        wrong |= set() if wrong else _refuted(found, fields, probe)
        if not wrong:
            break
        fields = {name: value for name, value in fields.items() if name not in wrong}
    return Fitted(fields=fields, shapes=tuple(found))


def values_of(shapes: Sequence[Sequence[str]], values: Values) -> Shapes:
    """Evaluate the expressions of all extents for given values of the fields."""
    return tuple(tuple(int(_evaluated(extent, values)) for extent in shape) for shape in shapes)


def _evaluated(text: str, values: Values) -> int:
    return Expression.parse(text, "shape").whole(values)


def _varies(name: str, value: int, base: Shapes, probe: Probe) -> bool:
    """Return True if the file runs with twice the value, and this changes extents but not the number of axes."""
    twice = probe({name: 2 * value})
    return twice is not None and twice != base and [len(each) for each in twice] == [len(each) for each in base]


def _expressions(base: Shapes, fields: Values, probe: Probe) -> tuple[list[tuple[str, ...]], set[str]]:
    """Return an expression for each extent, and the fields that must not vary because no expression fits."""
    twice = {name: probe({name: 2 * value}) or base for name, value in fields.items()}
    found, wrong = [], set()
    for tensor, shape in enumerate(base):
        texts = []
        for axis, extent in enumerate(shape):
            effects = {name: twice[name][tensor][axis] - extent for name in fields}
            effects = {name: effect for name, effect in effects.items() if effect}
            if len(effects) > 1 and set(effects.values()) != {extent}:
                wrong.add(_least_influential(effects))
                text = None
            else:
                text = _extent((tensor, axis), extent, {name: fields[name] for name in effects}, probe)
                wrong |= set() if text else set(effects)
            texts.append(text or str(extent))
        found.append(tuple(texts))
    return found, wrong


def _least_influential(effects: Mapping[str, int]) -> str:
    """Return the field that changes an extent least, e.g. the window of a convolution rather than the input length."""
    return min(effects, key=lambda name: abs(effects[name]))


def _extent(axis: tuple[int, int], extent: int, influences: Values, probe: Probe) -> str | None:
    """Return an expression for one extent; None if none fits.

    Args:
        axis: indices of the tensor and of its axis.
        extent: the extent for the values in the file.
        influences: the fields on which the extent depends, with their values in the file.
    """
    if not influences:
        return str(extent)
    if len(influences) == 1:
        ((name, value),) = influences.items()
        return _of_one(axis, extent, name, value, probe)
    ratio = Fraction(extent, prod(influences.values()))
    if ratio.denominator > _LARGEST or ratio.numerator > _LARGEST:
        return None
    factors = " * ".join([*([str(ratio.numerator)] if ratio.numerator != 1 else []), *influences])
    return factors if ratio.denominator == 1 else f"{factors} // {ratio.denominator}"


def _of_one(axis: tuple[int, int], extent: int, name: str, value: int, probe: Probe) -> str | None:
    """Return an expression of the form ``(p * name + b) // q`` for an extent; None if no such expression fits.

    The expression must give the right extent for every probed value of the field `name`.

    Args:
        axis: indices of the tensor and of its axis.
        extent: the extent if the field has the value `value`.
    """
    seen = {value: extent}
    for other in (2 * value, 3 * value, value + 1, value + 2, value + 3, 4 * value):
        if (shapes := probe({name: other})) is not None:
            seen[other] = shapes[axis[0]][axis[1]]
    least, most = min(seen), max(seen)
    slope = (seen[most] - seen[least]) / (most - least)
    for q in range(1, _MOST_PARTS + 1):
        p = round(slope * q)
        start = q * extent - p * value
        for b in range(start, start + q if p > 0 else start):
            if all((p * x + b) // q == y for x, y in seen.items()):
                return _linear(name, p, b, q)
    return None


def _linear(name: str, p: int, b: int, q: int) -> str:
    text = name if p == 1 else f"{p} * {name}"
    if b:
        text = f"{text} {'+' if b > 0 else '-'} {abs(b)}"
    if q == 1:
        return text
    return f"({text}) // {q}" if b else f"{text} // {q}"


def _refuted(found: Sequence[Sequence[str]], fields: Values, probe: Probe) -> set[str]:
    """Return the fields of the first expression that fails when several constants change; empty if none fails."""
    for attempt in range(_TRIES):
        values = {name: value * (1 + (index + attempt) % 3) for index, (name, value) in enumerate(fields.items())}
        shapes = probe(values)
        if shapes is None:
            continue
        expected = values_of(found, {**fields, **values})
        for texts, real, claimed in zip(found, shapes, expected, strict=True):
            for text, one, other in zip(texts, real, claimed, strict=True):
                if one != other:
                    return {name for name in fields if name in text.replace("(", " ").split()} or set(fields)
    return set()
