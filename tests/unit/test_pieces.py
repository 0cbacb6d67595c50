"""Large arrays are computed in pieces, by one thread per core."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from evo.reference import pieces as module
from evo.reference.encoding import decoded, encoded
from evo.reference.pieces import (
    DRAWN_TOGETHER,
    MOST_PIECES,
    PIECE,
    allocated,
    copied,
    in_pieces,
    largest_magnitude,
    norm,
    normals,
    on_all_cores,
    usable_cores,
)
from workers.backends.distance import distance


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 40 * PIECE + 7])
def test_pieces_cover_an_array_exactly_once_and_in_order(size: int) -> None:
    pieces = in_pieces(lambda piece: (piece.start, piece.stop), size)
    assert [start for start, _ in pieces] == list(range(0, size, PIECE))
    assert sum(stop - start for start, stop in pieces) == size


@pytest.mark.parametrize("size", [MOST_PIECES * PIECE, MOST_PIECES * PIECE + 1, 3 * MOST_PIECES * PIECE + 5])
def test_large_arrays_have_a_bounded_number_of_pieces(size: int) -> None:
    pieces = in_pieces(lambda piece: (piece.start, piece.stop), size)
    assert MOST_PIECES // 2 < len(pieces) <= MOST_PIECES
    assert [start for start, _ in pieces] == [0, *(stop for _, stop in pieces[:-1])]
    assert pieces[-1][1] == size


@pytest.mark.parametrize("shape", [(3, 5), (5, DRAWN_TOGETHER // 2 + 3)])
def test_parallel_random_numbers_depend_only_on_the_seed(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = normals(np.random.default_rng(7), shape)
    monkeypatch.setattr(module, "usable_cores", lambda: 1)
    assert np.array_equal(first, normals(np.random.default_rng(7), shape))
    assert not np.array_equal(first, normals(np.random.default_rng(8), shape))
    assert len(np.unique(first)) > 0.9 * first.size, "blocks are not repeated"


def test_concurrent_computations_share_one_thread_per_core() -> None:
    """Nested computations also share the threads instead of starting more."""
    seen: set[int] = set()

    def inner(part: int) -> int:
        seen.add(threading.get_ident())
        return part

    def outer(part: int) -> list[int]:
        return on_all_cores(inner, range(part, part + 3))

    with ThreadPoolExecutor(8) as callers:
        made = list(callers.map(lambda _: on_all_cores(outer, range(40)), range(8)))
    assert made == [[[part, part + 1, part + 2] for part in range(40)]] * 8
    assert len(seen) <= (os.cpu_count() or 1)


def test_error_in_one_of_several_computing_threads_reaches_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        on_all_cores(lambda part: 1 // part, [1, 0])


@pytest.mark.parametrize("parts", [0, 1, 7, 100, 1001])
def test_results_computed_on_all_cores_keep_the_order_of_the_parts(parts: int) -> None:
    assert on_all_cores(lambda part: part * part, range(parts)) == [part * part for part in range(parts)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an operating system with CPU affinity")
def test_usable_cores_count_only_the_cores_of_the_process() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert usable_cores() == len(allowed)


def test_forked_process_can_compute_on_all_cores() -> None:
    assert on_all_cores(abs, [-1, 2]) == [1, 2]
    if (child := os.fork()) == 0:
        os._exit(0 if on_all_cores(abs, [-3, 4]) == [3, 4] else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3", "float64"])
def test_large_arrays_are_encoded_like_small_arrays(dtype: str) -> None:
    values = normals(np.random.default_rng(1), (40, PIECE + 1))
    codes = encoded(values, dtype)
    assert codes.shape == values.shape
    for row in (0, 17, 39):
        assert np.array_equal(codes[row], encoded(values[row], dtype))
        assert np.array_equal(decoded(codes, dtype)[row], decoded(codes[row], dtype))


def test_single_wrong_elements_of_a_large_array_are_counted() -> None:
    right = normals(np.random.default_rng(1), (40 * PIECE + 9,))
    wrong = right.copy()
    wrong[-1] += 3.0
    wrong[PIECE] = np.inf
    found = distance(wrong, right.astype(np.float64))
    assert (found.elements, found.not_finite, found.unwritten) == (right.size, 1, 0)
    assert found.max_abs == pytest.approx(3.0, rel=1e-6)
    assert found.squares == pytest.approx(9.0, rel=1e-6)


@pytest.mark.parametrize("shape", [(), (0,), (7, 3), (5, 8 * PIECE + 3)])
def test_allocated_and_copied_arrays_equal_those_of_numpy(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    copy = copied(values.T)
    assert copy.flags.c_contiguous
    assert copy.flags.owndata
    np.testing.assert_array_equal(copy, values.T)
    for dtype in ("float64", "bool"):
        made = allocated(shape, dtype)
        assert (made.shape, made.dtype, made.flags.c_contiguous) == (shape, np.dtype(dtype), True)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8"])
def test_norm_and_largest_magnitude_of_large_arrays_are_exact(dtype: str) -> None:
    values = (100 * np.random.default_rng(0).standard_normal(40 * PIECE + 5)).clip(-128, 127).astype(dtype)
    assert norm(values) == pytest.approx(float(np.linalg.norm(values.astype(np.float64))), rel=1e-12)
    assert largest_magnitude(values) == float(np.abs(values.astype(np.float64)).max())
    assert (norm(values[:0]), largest_magnitude(values[:0])) == (0.0, 0.0)
