"""Python's operators over NumPy arrays, without silent overflow, division by zero, infinity or NaN.

Most operations take `active`, a mask of the elements whose result is needed. Only these elements can cause an error.
The other elements are not needed, for example, because the left operand of an ``and`` is already false there. Numbers
are int64 or float64; a bool counts as 0 or 1.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
Operation: TypeAlias = Callable[[Array, Array, Mask], Array]

INTEGER_LIMIT = 1 << 62
"""Limit of the magnitude of whole numbers. The sum of two such numbers fits int64, so results can be checked
afterwards.
"""

EXPONENT_LIMIT = 63
DIVIDES_BY_ZERO = "divides by zero"
TOO_LARGE = "is too large (numbers must be below 2**62)"
NEEDS_POSITIVE_BASE = "needs a whole number as exponent, or a base of at least 0"
NEEDS_NUMBERS, COMPARES_TYPES = "needs numbers, not strings", "compares a string with a number"
OF_TEXTS = (NEEDS_NUMBERS, COMPARES_TYPES)


class OperationError(ArithmeticError):
    """Raised if an operation has no result for an element whose result is needed, e.g. in a division by zero.

    Attributes:
        elements: mask of the faulty elements, broadcastable to the operands. None if the types of the operands are
            wrong.
    """

    def __init__(self, reason: str, elements: Mask | None = None) -> None:
        super().__init__(reason)
        self.elements = elements


def column(value: object) -> Array:
    """Return a scalar or array as an array of bool, int64, float64 or strings.

    Raises:
        OperationError: the value has a different type, is a whole number of 2**62 or more, or contains an infinity or
            NaN.
    """
    array = np.asarray(value)
    if array.dtype.kind in "bU":
        return array
    if array.dtype.kind == "f" and np.isfinite(array).all():
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and (array < INTEGER_LIMIT).all()):
        return _checked(array.astype(np.int64, copy=False), np.asarray(True))
    raise OperationError("must be a finite number below 2**62, a bool or a string")


def is_text(value: Array) -> bool:
    return value.dtype.kind == "U"


def numbers(*values: Array) -> tuple[Array, ...]:
    """Return the operands as numbers of one type: bools become 0 and 1, and all become float64 if one is float64.

    Raises:
        OperationError: an operand is a string.
    """
    if any(is_text(value) for value in values):
        raise OperationError(NEEDS_NUMBERS)
    kind = np.float64 if any(value.dtype.kind == "f" for value in values) else np.int64
    return tuple(value.astype(kind, copy=False) for value in values)


def truth(value: Array) -> Mask:
    """Return the truth value of each element, as Python defines it."""
    empty = np.asarray("") if is_text(value) else np.asarray(0)
    return np.asarray(value != empty)


def select(condition: Mask, chosen: Array, other: Array) -> Array:
    """Return `chosen` where the condition is true, and `other` elsewhere.

    Raises:
        OperationError: one of the two is a string, and the other is a number.
    """
    if is_text(chosen) != is_text(other):
        raise OperationError("must have the same type in both branches, but one is a string and one is a number")
    if chosen.dtype == other.dtype or is_text(chosen):
        return np.where(condition, chosen, other)
    return np.where(condition, *numbers(chosen, other))


def compare(operator: Callable[[Array, Array], Any], left: Array, right: Array) -> Mask:
    """Compare two numbers, or two strings, element by element; return a mask.

    Raises:
        OperationError: one operand is a string, and the other is a number.
    """
    if is_text(left) != is_text(right):
        raise OperationError(COMPARES_TYPES)
    return np.asarray(operator(left, right))


def add(left: Array, right: Array, active: Mask) -> Array:
    return _checked(np.add(*numbers(left, right)), active)


def subtract(left: Array, right: Array, active: Mask) -> Array:
    return _checked(np.subtract(*numbers(left, right)), active)


def multiply(left: Array, right: Array, active: Mask) -> Array:
    left, right = numbers(left, right)
    return _through_float(np.multiply, left, right, active)


def power(base: Array, exponent: Array, active: Mask) -> Array:
    base, exponent = numbers(base)[0], numbers(exponent)[0]
    refused = np.asarray((exponent < 0) | (exponent > EXPONENT_LIMIT))
    if np.any(refused & active):
        raise OperationError(f"needs an exponent from 0 to {EXPONENT_LIMIT}", refused & active)
    if exponent.dtype.kind == "f":
        base = base.astype(np.float64)
        imaginary = np.asarray((base < 0) & (exponent % 1 != 0))
        if np.any(imaginary & active):
            raise OperationError(NEEDS_POSITIVE_BASE, imaginary & active)
        refused = refused | imaginary
    return _through_float(np.power, base, np.where(refused, 0, exponent), active)


def _division(operation: Callable[[Array, Array], Array]) -> Operation:
    def divided(left: Array, right: Array, active: Mask) -> Array:
        left, right = numbers(left, right)
        return _checked(operation(left, _divisor(right, active)), active)

    return divided


divide, floor_divide, remainder = (_division(each) for each in (np.divide, np.floor_divide, np.remainder))


def ceil_div(left: Array, right: Array, active: Mask) -> Array:
    """Return the quotient rounded up: ``-(-left // right)``."""
    return np.negative(floor_divide(np.negative(numbers(left)[0]), right, active))


def gcd(left: Array, right: Array, active: Mask) -> Array:
    left, right = numbers(left, right)
    if left.dtype.kind == "f":
        raise OperationError("needs whole numbers")
    return np.asarray(np.gcd(left, right))


def minimum(left: Array, right: Array, active: Mask) -> Array:
    return np.asarray(np.minimum(*numbers(left, right)))


def maximum(left: Array, right: Array, active: Mask) -> Array:
    return np.asarray(np.maximum(*numbers(left, right)))


def negate(value: Array) -> Array:
    return np.negative(numbers(value)[0])


def absolute(value: Array) -> Array:
    return np.absolute(numbers(value)[0])


def _divisor(right: Array, active: Mask) -> Array:
    zero = np.asarray(right == 0)
    if np.any(zero & active):
        raise OperationError(DIVIDES_BY_ZERO, zero & active)
    return np.where(zero, 1, right)


def _through_float(operation: Callable[[Array, Array], Any], left: Array, right: Array, active: Mask) -> Array:
    """Return the result of an operation, after checking in float64 that an integer result would not overflow."""
    if left.dtype.kind == "i":
        _checked(np.asarray(operation(left.astype(np.float64), right.astype(np.float64))), active, 1.5 * INTEGER_LIMIT)
    return _checked(operation(left, right), active)


def _checked(result: Any, active: Mask, limit: float = np.inf) -> Array:
    array = np.asarray(result)
    bound = INTEGER_LIMIT if array.dtype.kind == "i" else limit
    if array.size and -bound < array.min() and array.max() < bound:  # usual case; this check is the fastest
        return array
    fits = (array > -bound) & (array < bound)
    if np.all(fits | ~active):
        return array
    raise OperationError(TOO_LARGE, np.asarray(~fits & active))
