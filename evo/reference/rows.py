"""Random rows and row-wise computations for a family's ``reference.py``."""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.reference import Arrays
from evo.reference.library import LARGE_ELEMENTS, computing
from evo.reference.pieces import allocated, normals, on_all_cores

Computation: TypeAlias = Callable[[Mapping[str, Any], Arrays], dict[str, NDArray[Any]]]

BLOCK_ELEMENTS = 1 << 18
"""Number of elements of the widest input per block. Temporary arrays of a block fit a core's cache."""

GPU_BLOCK_ELEMENTS = 1 << 27
"""Number of elements of the widest input per block on a GPU. Each temporary float64 array of a block takes a GiB."""


def normal_rows(rng: np.random.Generator, shape: tuple[int, ...], mean: float, deviation: float) -> NDArray[np.float32]:
    """Draw from N(`mean`, `deviation`²), directly in float32."""
    drawn = normals(rng, shape)
    if deviation != 1.0:
        drawn *= np.float32(deviation)
    if mean:
        drawn += np.float32(mean)
    return drawn


def raise_columns(rng: np.random.Generator, x: NDArray[np.float32], by: float) -> None:
    """Add `by` to the first, the last and two random columns of `x`, to detect kernels that skip one of these columns.

    If these were all columns of a matrix with several columns, one random column is left out.

    Args:
        x: matrix that is changed in place, shape (rows, columns).
    """
    columns = x.shape[1]
    raised = np.unique([0, columns - 1, *rng.integers(columns, size=2)])
    if 1 < len(raised) == columns:  # if all columns were raised, none would dominate
        raised = np.delete(raised, rng.integers(columns))
    x[:, raised] += np.float32(by)


def a_column_each(rng: np.random.Generator, rows: int, columns: int) -> NDArray[np.int64]:
    """Return one random column index per row: row i gets a column from the i-th of `rows` equal ranges of columns.

    The indices do not decrease. The difference of consecutive indices is at most ``2 * columns / rows``, or 1 if there
    are fewer columns than rows. The indices are random within each range, because fixed positions could miss a faulty
    kernel that skips only columns at powers of two.
    """
    return np.arange(rows) * columns // rows + rng.integers(max(1, columns // rows), size=rows)


_LOGITS: Mapping[str, tuple[float, float]] = {
    "normal": (0.0, 1.0),
    "offset": (-200.0, 2.0),
    "peaked": (0.0, 1.0),
    "falling": (0.0, 1.0),
    "large": (0.0, 40.0),
    "small": (0.0, 1e-3),
}
"""Mean and standard deviation of the drawn numbers, by distribution of `logit_rows`."""

_TOWERING = 120.0


def logit_rows(rng: np.random.Generator, shape: tuple[int, int], distribution: str) -> NDArray[np.float32]:
    """Draw inputs of a row-wise softmax, shape (rows, columns).

    Args:
        distribution: name of the distribution:
            ``normal``: N(0, 1).
            ``offset``: numbers with mean -200, which cancels in a correct kernel. The exp of the numbers themselves
                would underflow to 0 in float32.
            ``peaked``: in each row, one column dominates so much that exp overflows unless the row's exact maximum is
                subtracted; see `a_column_each`. In every second row, about three sixteenths of the columns are masked
                with -inf.
            ``falling``: a few columns dominate, including the first and the last.
            ``large``: only a few columns contribute.
            ``small``: numbers near 0, so that the results are nearly equal.
    """
    rows, columns = shape
    x = normal_rows(rng, shape, *_LOGITS[distribution])
    if distribution == "peaked":
        x[::2, : columns // 8] = x[::2, columns // 2 : columns // 2 + columns // 16] = -np.inf
        x[range(rows), a_column_each(rng, rows, columns)] = _TOWERING
    if distribution == "falling":
        raise_columns(rng, x, _TOWERING)
    return x


def by_rows(compute: Computation) -> Computation:
    """Return a function of problem and inputs that applies `compute` to blocks of rows, and joins the results.

    Row i of a result may depend only on row i of each matrix. All matrices must have the same number of rows. A matrix
    is an input with two or more dimensions.

    Args:
        compute: function of the problem and the inputs. In these inputs, each matrix has only the rows of one block;
            inputs with one dimension are complete. The function returns the block's rows of each result, by name.
    """

    @wraps(compute)
    def computed(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, NDArray[Any]]:
        elements = sum(values.size for values in inputs.values() if values.ndim > 1)
        with computing(elements, large=LARGE_ELEMENTS) as library:
            if library is np:
                return _in_blocks(compute, problem, inputs, BLOCK_ELEMENTS, on_all_cores)
            gpu = _on_gpu(library, compute)
            return _in_blocks(gpu, problem, inputs, GPU_BLOCK_ELEMENTS, map, to_host=library.asnumpy)

    return computed


def _in_blocks(
    compute: Callable[[Mapping[str, Any], Arrays], Mapping[str, Any]],
    problem: Mapping[str, Any],
    inputs: Arrays,
    elements: int,
    each_of: Callable[..., Iterable[Any]],
    *,
    to_host: Callable[..., object] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the joined results of `compute` for all blocks of rows.

    Args:
        elements: approximate number of elements of the widest matrix per block.
        each_of: `map`, or a function with the same parameters that runs calls in parallel. It computes all blocks
            except the first, which is computed earlier to allocate the output.
        to_host: copies a result to the NumPy array `out`. None if the results are NumPy arrays.
    """
    matrices = {name: values for name, values in inputs.items() if values.ndim > 1}
    rows = len(next(iter(matrices.values())))
    step = max(1, elements * rows // max(1, *(each.size for each in matrices.values())))

    def block(start: int) -> Mapping[str, Any]:
        return compute(problem, {**inputs, **{name: each[start : start + step] for name, each in matrices.items()}})

    first = block(0)
    if step >= rows and to_host is None:
        return dict(first)
    new = np.empty if to_host is None else allocated  # touch pages on all cores before the copy, which uses one core
    results = {name: new((rows, *part.shape[1:]), part.dtype) for name, part in first.items()}

    def place(start: int, parts: Mapping[str, Any] | None = None) -> None:
        for name, part in (parts or block(start)).items():
            into = results[name][start : start + step]
            if to_host is None:
                into[...] = part
            else:
                to_host(part, out=into)

    place(0, first)
    list(each_of(place, range(step, rows, step)))
    return results


def _on_gpu(library: Any, compute: Computation) -> Callable[[Mapping[str, Any], Arrays], Mapping[str, Any]]:
    """Return a function that copies the inputs to CuPy arrays and applies `compute` to them."""
    return lambda problem, inputs: compute(problem, {name: library.asarray(each) for name, each in inputs.items()})
