"""Compares an output with its reference, i.e. its expected values."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.reference.encoding import decoded, is_floating
from evo.reference.pieces import in_pieces

POISON = 0xFF
"""Value of every byte of outputs, workspaces and guard bands before a call. It represents NaN in all float formats."""

EXACT_INTEGERS = 2.0**53
"""Magnitude up to which float64 represents every integer."""


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Result of comparing one output with its expected values.

    Attributes:
        elements: number of elements.
        unwritten: number of elements whose bytes still equal `POISON`, or None for integers and bools. These bytes can
            be a correct integer.
        not_finite: number of elements whose difference from the expected value is NaN or infinite, including unwritten
            elements.
        squares: sum of the squares of the finite differences.
        max_abs: largest absolute value of the finite differences. For integers, a value from `EXACT_INTEGERS` on is
            rounded up, because float64 cannot represent all larger integers.
    """

    elements: int
    unwritten: int | None
    not_finite: int
    squares: float
    max_abs: float


def distance(values: NDArray[Any], reference: NDArray[Any], dtype: str | None = None) -> Distance:
    """Compare an output with its expected values on the host, in chunks.

    Integers and bools are subtracted as integers, so that a difference of one is visible even between large values.

    Args:
        values: output of a kernel.
        reference: expected values, an array of the same shape. For integers, its dtype may be integer or float64.
        dtype: dtype of the output's elements. This argument is needed only if NumPy has no such dtype.
    """
    dtype = dtype or values.dtype.name
    floating = is_floating(dtype)
    flat, right = np.ascontiguousarray(values).reshape(-1), np.ascontiguousarray(reference).reshape(-1)
    poison = int.from_bytes(bytes([POISON]) * values.itemsize)

    def judge(piece: slice) -> tuple[int, int, float, float]:
        """Return `unwritten`, `not_finite`, `squares` and `max_abs` of one chunk."""
        written, wanted = flat[piece], right[piece]
        difference = decoded(written, dtype).astype(np.float64) - wanted if floating else _subtracted(written, wanted)
        unwritten = not_finite = 0
        finite = np.isfinite(difference)
        if not finite.all():
            unwritten = int(np.count_nonzero(written.view(f"u{values.itemsize}") == poison))
            not_finite = int(difference.size - np.count_nonzero(finite))
            difference = difference[finite]
        largest = max(float(difference.max(initial=0.0)), -float(difference.min(initial=0.0)))
        squares = float(np.einsum("i,i->", difference, difference))  # einsum, unlike dot, starts no BLAS threads
        return unwritten, not_finite, squares, largest

    judged = in_pieces(judge, flat.size)
    max_abs = max((each[3] for each in judged), default=0.0)
    return Distance(
        elements=flat.size,
        unwritten=sum(each[0] for each in judged) if floating else None,
        not_finite=sum(each[1] for each in judged),
        squares=math.fsum(each[2] for each in judged),
        max_abs=max_abs if floating else not_below(max_abs),
    )


def not_below(difference: float) -> float:
    """Return an upper bound of the exact absolute difference of two integers.

    Args:
        difference: absolute difference, rounded to float64.
    """
    return difference if difference < EXACT_INTEGERS else float(np.nextafter(difference, np.inf))


def _subtracted(values: NDArray[Any], reference: NDArray[Any]) -> NDArray[np.float64]:
    """Return integers or bools minus their expected values. Differences up to `EXACT_INTEGERS` are exact."""
    integral = np.floor(reference) if reference.dtype.kind == "f" else reference
    if values.dtype.kind == "b":  # bytes other than 0 and 1 are wrong, but NumPy treats them as True
        values = values.view(np.uint8)
    wide = np.uint64 if values.dtype.kind == "u" else np.int64
    left, right = values.astype(wide), integral.astype(wide)
    # the larger minus the smaller value fits in uint64, also for signed integers
    magnitude = np.where(
        left >= right, left.view(np.uint64) - right.view(np.uint64), right.view(np.uint64) - left.view(np.uint64)
    )
    difference = np.where(left >= right, 1.0, -1.0) * magnitude.astype(np.float64)
    return difference if integral is reference else difference - (reference - integral)
