"""How far an output is from what is right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evo.encoding import decoded, is_floating

POISON = 0xFF
"""Every byte of outputs, workspaces and guard bands before a call: a NaN in every floating-point format."""

_PIECE = 1 << 16
"""Elements judged at once: their temporaries stay in a core's cache."""


@dataclass(frozen=True, kw_only=True)
class Distance:
    """One output beside its reference.

    Attributes:
        unwritten: elements that still hold the poison; None where a right answer may look like it (integers).
        not_finite: elements that are NaN or infinite, the unwritten ones among them.
        squares: sum of the squared differences, over what is finite.
        max_abs: the largest difference, over what is finite.
    """

    elements: int
    unwritten: int | None
    not_finite: int
    squares: float
    max_abs: float


def distance(values: NDArray[np.generic], reference: NDArray[np.float64], dtype: str | None = None) -> Distance:
    """Piece by piece, on the host.

    Args:
        values, reference: of one shape.
        dtype: of the values, where they are codes of what NumPy has no dtype for.
    """
    dtype = dtype or values.dtype.name
    floating = is_floating(dtype)
    flat, right = np.ascontiguousarray(values).reshape(-1), np.ascontiguousarray(reference).reshape(-1)
    poison = int.from_bytes(bytes([POISON]) * values.itemsize)
    unwritten = not_finite = 0
    squares = max_abs = 0.0
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        difference = decoded(piece, dtype).astype(np.float64) - right[start : start + _PIECE]
        finite = np.isfinite(difference)
        if floating and not finite.all():
            unwritten += int(np.count_nonzero(piece.view(f"u{values.itemsize}") == poison))
            not_finite += int(difference.size - np.count_nonzero(finite))
            difference = difference[finite]
        squares += float(difference @ difference)
        max_abs = max(max_abs, float(difference.max(initial=0.0)), -float(difference.min(initial=0.0)))
    return Distance(
        elements=flat.size,
        unwritten=unwritten if floating else None,
        not_finite=not_finite,
        squares=squares,
        max_abs=max_abs,
    )
