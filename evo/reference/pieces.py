"""Computes large arrays piece by piece, on all cores."""

import math
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evo.device.cores import core_numbers

T = TypeVar("T")
S = TypeVar("S")

PIECE = 1 << 18
"""Minimum number of elements of a piece. The temporary arrays of small pieces fit a core's L2 cache. But threads
exchange the interpreter lock after each call of NumPy, and with 16 threads they mostly wait for it if a call takes less
than about 100 µs.
"""

MOST_PIECES = 1 << 10
"""Maximum number of pieces of an array. For 2**29 elements in 8,000 pieces, 4 to 8 of 16 cores were busy."""

_TASKS_PER_CORE = 4
"""Maximum number of tasks per core. Consecutive parts form one task, because starting a task takes the interpreter
lock several times. With more tasks than cores, a slow core delays the result less.
"""

DRAWN_TOGETHER = 1 << 20
"""Maximum number of random numbers drawn from one generator. Larger arrays use several generators."""

_PAGE_BYTES = 4096
_TOUCHED_TOGETHER = 1 << 9
"""Number of memory pages that a core touches at a time: 2 MiB."""

_MANY_PIECES = 8
"""Number of pieces below which starting threads is not worthwhile."""


_at_work = threading.local()
_pools: dict[int, ThreadPoolExecutor] = {}


def on_all_cores(compute: Callable[[S], T], parts: Iterable[S]) -> list[T]:
    """Return the result of `compute` for each part, in the order of the parts.

    All calls in this process share a pool with one thread per core. With a pool per call, 16 cases that are computed
    simultaneously on 16 cores would use 256 threads. Nested calls, from within `compute`, run in the calling thread.

    Args:
        compute: function that is called by several threads at the same time. Threads save time only while the function
            releases the interpreter lock, as NumPy does for large arrays.
    """
    given = list(parts)
    if getattr(_at_work, "inside", False):
        return [compute(part) for part in given]
    size = max(1, math.ceil(len(given) / (_TASKS_PER_CORE * usable_cores())))
    tasks = [given[start : start + size] for start in range(0, len(given), size)]
    return list(chain.from_iterable(_pool().map(lambda task: [compute(part) for part in task], tasks)))


def usable_cores() -> int:
    """Return the number of cores that this process may use, which can be less than the machine has."""
    return len(core_numbers())


def _pool() -> ThreadPoolExecutor:
    """Return this process's thread pool. A forked process gets a new pool, because it lacks its parent's threads."""
    here = os.getpid()
    if here not in _pools:
        made = ThreadPoolExecutor(usable_cores(), "pieces", lambda: setattr(_at_work, "inside", True))
        _pools.setdefault(here, made)
    return _pools[here]


def in_pieces(compute: Callable[[slice], T], size: int, *, piece: int | None = None) -> list[T]:
    """Return the results of `compute` for consecutive pieces of an array, in the order of the pieces.

    Args:
        compute: function of a slice. Several threads call it at the same time if there are many pieces.
        size: number of elements of the array.
        piece: number of elements per piece. By default, it is `PIECE`, or more if there would be over `MOST_PIECES`
            pieces.
    """
    piece = piece or max(PIECE, -(-size // MOST_PIECES))
    pieces = [slice(start, min(start + piece, size)) for start in range(0, size, piece)]
    if len(pieces) < _MANY_PIECES:
        return [compute(each) for each in pieces]
    return on_all_cores(compute, pieces)


def normals(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Draw from N(0, 1). The result depends only on the generator and the shape, not on the number of threads."""
    drawn = np.empty(shape, np.float32)
    flat = drawn.reshape(-1)
    if flat.size <= DRAWN_TOGETHER:
        rng.standard_normal(dtype=np.float32, out=flat)
        return drawn
    generators = rng.spawn(-(-flat.size // DRAWN_TOGETHER))
    parts = [(each, flat[i * DRAWN_TOGETHER : (i + 1) * DRAWN_TOGETHER]) for i, each in enumerate(generators)]
    on_all_cores(lambda part: part[0].standard_normal(dtype=np.float32, out=part[1]), parts)
    return drawn


def allocated(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return a new array whose memory pages have been written once, by all cores.

    The first write to a page takes longer than copying it. A caller that fills the array with a single core therefore
    saves time.
    """
    array = np.empty(shape, dtype)
    pages = array.reshape(-1).view(np.uint8)[::_PAGE_BYTES] if array.size else array

    def touch(piece: slice) -> None:
        pages[piece] = 0

    in_pieces(touch, pages.size, piece=_TOUCHED_TOGETHER)
    return array


def copied(values: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous copy of an array, made on all cores."""
    copy = np.empty(values.shape, values.dtype)
    into, flat = copy.reshape(-1), np.ascontiguousarray(values).reshape(-1)

    def fill(piece: slice) -> None:
        into[piece] = flat[piece]

    in_pieces(fill, flat.size)
    return copy


def norm(values: NDArray[Any]) -> float:
    """Return the Euclidean norm of all elements, summed in float64."""
    flat = np.ascontiguousarray(values).reshape(-1)

    def squares(piece: slice) -> float:
        part = flat[piece].astype(np.float64, copy=False)
        return float(np.einsum("i,i->", part, part))

    return math.sqrt(math.fsum(in_pieces(squares, flat.size)))


def largest_magnitude(values: NDArray[Any]) -> float:
    """Return the largest absolute value of all elements; 0 if there are none."""
    flat = np.ascontiguousarray(values).reshape(-1)

    def largest(piece: slice) -> float:
        return max(float(flat[piece].max(initial=0)), -float(flat[piece].min(initial=0)))

    return max(in_pieces(largest, flat.size), default=0.0)
