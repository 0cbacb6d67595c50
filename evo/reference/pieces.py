"""Large arrays, computed piece by piece on all cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

PIECE = 1 << 16
"""Elements of a piece, so few that its temporaries stay in a core's cache."""

DRAWN_TOGETHER = 1 << 20
"""Numbers drawn from one generator."""

_MANY_PIECES = 32
"""Number of elements below which threads are not worth starting."""


def in_pieces(compute: Callable[[slice], T], size: int, *, piece: int = PIECE) -> list[T]:
    """Return the results of `compute` for each piece of `size` elements, in order.

    Args:
        compute: called by several threads at the same time if there are many pieces.
    """
    pieces = [slice(start, min(start + piece, size)) for start in range(0, size, piece)]
    if len(pieces) < _MANY_PIECES:
        return [compute(each) for each in pieces]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compute, pieces))


def normals(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Draw from N(0, 1). The numbers depend only on the generator and the shape, not on the number of threads."""
    drawn = np.empty(shape, np.float32)
    flat = drawn.reshape(-1)
    if flat.size <= DRAWN_TOGETHER:
        rng.standard_normal(dtype=np.float32, out=flat)
        return drawn
    generators = rng.spawn(-(-flat.size // DRAWN_TOGETHER))
    parts = [(each, flat[i * DRAWN_TOGETHER : (i + 1) * DRAWN_TOGETHER]) for i, each in enumerate(generators)]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda part: part[0].standard_normal(dtype=np.float32, out=part[1]), parts))
    return drawn
