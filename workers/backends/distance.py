"""Distance of an output from its reference."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.reference.encoding import decoded, is_floating
from evo.reference.pieces import in_pieces

POISON = 0xFF
"""Value of every byte of outputs, workspaces and guard bands before a call. It gives NaN in all float formats."""

EXACT_INTEGERS = 2.0**53
"""Magnitude up to which float64 represents every integer."""


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Result of comparing one output with its reference.

    Attributes:
        unwritten: number of elements that still have the poison value. None for integers, because the poison value can
            be a correct integer.
        not_finite: number of elements that are NaN or infinite, including unwritten elements.
        squares: sum of the squared differences of finite elements.
        max_abs: largest absolute difference of finite elements. For integers, the value is rounded up if float64 cannot
            represent it exactly.
    """

    elements: int
    unwritten: int | None
    not_finite: int
    squares: float
    max_abs: float


def distance(values: NDArray[Any], reference: NDArray[Any], dtype: str | None = None) -> Distance:
    """Compare an output with its reference on the host, in pieces.

    Integers and bools are subtracted as integers, so that a difference of one is visible even between large values.

    Args:
        values, reference: arrays of the same shape. For integers the reference may be integers or float64.
        dtype: dtype that the values encode. Needed only if NumPy has no such dtype.
    """
    dtype = dtype or values.dtype.name
    floating = is_floating(dtype)
    flat, right = np.ascontiguousarray(values).reshape(-1), np.ascontiguousarray(reference).reshape(-1)
    poison = int.from_bytes(bytes([POISON]) * values.itemsize)

    def judge(piece: slice) -> tuple[int, int, float, float]:
        """Return four values for one piece: the number of unwritten elements, the number of non-finite elements, the
        sum of squared differences, and the largest difference.
        """
        written, wanted = flat[piece], right[piece]
        difference = decoded(written, dtype).astype(np.float64) - wanted if floating else _subtracted(written, wanted)
        unwritten = not_finite = 0
        finite = np.isfinite(difference)
        if not finite.all():
            unwritten = int(np.count_nonzero(written.view(f"u{values.itemsize}") == poison))
            not_finite = int(difference.size - np.count_nonzero(finite))
            difference = difference[finite]
        largest = max(float(difference.max(initial=0.0)), -float(difference.min(initial=0.0)))
        squares = float(np.einsum("i,i->", difference, difference))  # without BLAS, whose threads wait for each other
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
    """Return a difference of integers as a float64 that is at least the exact difference."""
    return difference if difference < EXACT_INTEGERS else float(np.nextafter(difference, np.inf))


def _subtracted(values: NDArray[Any], reference: NDArray[Any]) -> NDArray[np.float64]:
    """Return integers or bools minus their reference.

    Differences up to `EXACT_INTEGERS` are exact. Larger differences are rounded to float64.
    """
    integral = np.floor(reference) if reference.dtype.kind == "f" else reference
    if values.dtype.kind == "b":  # so that bytes other than 0 and 1 are not True
        values = values.view(np.uint8)
    wide = np.uint64 if values.dtype.kind == "u" else np.int64
    left, right = values.astype(wide), integral.astype(wide)
    # modulo 2^64, larger minus smaller is exact for any two values
    magnitude = np.where(
        left >= right, left.view(np.uint64) - right.view(np.uint64), right.view(np.uint64) - left.view(np.uint64)
    )
    difference = np.where(left >= right, 1.0, -1.0) * magnitude.astype(np.float64)
    return difference if integral is reference else difference - (reference - integral)
