"""Mixes inputs of one problem that were drawn from several distributions.

Mixed inputs detect five kinds of wrong kernels that are correct on every case:

- A kernel examines a sample of its inputs, and takes a shortcut if the sample resembles one case. Its results are wrong
  if a few elements differ from that case, or if rows come from different cases.
- A kernel is wrong for zeros or for equal elements, which hardly ever occur in random numbers.
- A kernel is wrong for simple numbers: ones, other whole numbers, ascending elements, or pairs of opposite numbers.
- A kernel is wrong for rows with a structure: repeated, periodic, symmetric, descending or of one sign, with numbers of
  low precision, with a run of zeros or a few large blocks, or equal to a row of another input.
- A kernel reuses the previous results if the inputs are close to the previous inputs. Random inputs are never that
  close.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.family import DRAWN, JUDGED, Operand
from evo.reference.encoding import decoded, encoded, is_floating, stored
from workers.measure.family.expected_output import Arrays

_EQUAL_SHARES = (0.125, 0.875)
"""Fractions of the elements of a row that become equal or zero. A kernel that takes a shortcut for sparse or constant
rows fails if most, but not all, elements of a row are equal.
"""

_LONG_ROW, _PIECES = 16, 16
"""Minimum length of a row in which most elements become equal, and number of pieces into which a vector is divided. The
pieces are treated like rows. A shorter row would become constant, and normalising a constant row causes large rounding
errors.
"""

_NEAR, _NEAREST, _FARTHEST = 0.125, 16.0, 512.0
"""Limits of the relative difference between nearby inputs and nominal inputs. Each element of nearby inputs differs by
a random fraction of its value. The maximum fraction is drawn between `_NEAREST` and `_FARTHEST` times the allowed
relative error of the outputs, and is at most `_NEAR`. Outputs that a kernel stored for the nominal inputs are therefore
wrong for the nearby inputs.
"""

_MOST_CHANGED = 3
"""Maximum number of elements that differ in the mixture with a few different elements."""

_SORTED_ONE_IN = 4
"""One in this number of rows is in ascending order in the mixture of whole numbers."""

_STRUCTURES = 10
"""Number of kinds of rows in the mixture of rows with a structure. Rows of the last kind are not changed."""

_OUTLIERS = 8
"""Maximum number of rows with an outlier."""

_ENDS = 8
"""Number of elements at each end of a row that count as its end. A kernel may handle them separately, e.g. because they
do not fill a vector.
"""

_BLOCKS = (1, 16, 256)
_LARGE_BLOCKS = 8
_SMALLER = 1 / 64
"""Possible numbers of elements in a block of a row, mean number of blocks of a row that stay unchanged (half of them if
the row has fewer than 16 blocks), and factor by which the elements of all other blocks are multiplied.
"""

_FEW_BITS = 8
"""Number of significant bits of numbers of low precision, as in bfloat16."""

KINDS = 9
"""Maximum number of mixtures."""

MOST_BYTES = 1 << 27
"""Maximum total size of the inputs in bytes. Drawing and verifying mixtures of larger inputs takes too long."""


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Mixed inputs, and a name that describes how they differ from the nominal inputs.

    Attributes:
        few: True if the largest errors may occur in only a few output elements, because some input elements are
            outliers, or because the inputs have few different numbers.
        ties: True if equal elements may permit several correct values of integer outputs, such as indices.
    """

    name: str
    inputs: Arrays
    few: bool
    ties: bool = False


def mixtures(
    nominal: Arrays,
    others: Sequence[Arrays],
    operands: Sequence[Operand],
    rng: np.random.Generator,
    *,
    allowed: float,
) -> Iterator[Mixture]:
    """Yield mixed inputs of up to nine kinds.

    - nominal inputs in which all elements differ slightly
    - nominal inputs in which a few elements differ slightly
    - nominal inputs in which an outlier is the largest element of up to eight rows
    - nominal inputs in which an outlier is the smallest element of up to eight rows
    - rows from all distributions
    - equal elements and zeros
    - nominal inputs rounded to multiples of a power of two near their root mean square, i.e. to whole numbers if it is
      about 1; some rows are in ascending order
    - rows with a structure, see `_structured`; some rows equal the row of another input of the same shape
    - if an output contains integers or numbers of 8 bits: rows that are sorted, of one sign, or contain a zero, without
      new equal elements (see `_distinct`)

    Equal elements may permit several correct values of integer outputs, such as indices (`Mixture.ties`). Whole numbers
    and rows with a structure are omitted if a floating-point output has a dtype of 8 bits, because many results then
    lie in the middle between two of its values, and the rounding errors are larger than usual.

    These inputs are left unchanged:

    - integers, such as indices and lengths
    - symmetric matrices, and inputs with rows or elements in ascending order, because exchanging elements would make
      them invalid
    - inputs that are equal to the input of the same name in one of `others`, such as a mask
    - inputs with repetitions (see `_repeats`), such as a table with equal halves, because a kernel may read only one
      half

    The mixture of rows from all distributions is an exception: it may change inputs of the last two kinds if they have
    two or more dimensions, and no repetitions along an axis other than the last.

    Nothing is yielded if the total size of the inputs exceeds `MOST_BYTES`, if `others` is empty, or if each input has
    one of the first two properties.

    Args:
        nominal: nominal inputs by name.
        others: inputs of the same problem from other distributions.
        operands: declarations of the arguments, with the dtype of each input.
        rng: random generator that draws the changes.
        allowed: maximum relative L2 error of the outputs.
    """
    dtypes = {each.name: each.dtype for each in operands if each.role in DRAWN}
    floating = {name: array for name, array in nominal.items() if is_floating(dtypes[name])}
    size = sum(array.nbytes for array in nominal.values())
    movable = {name: array for name, array in floating.items() if not _ordered(array)}
    if not others or size > MOST_BYTES or not movable:
        return
    free = {
        name
        for name, array in movable.items()
        if not (any(np.array_equal(array, other[name]) for other in others) or _repeats(array, range(array.ndim)))
    }
    share = min(allowed * _NEAREST * (_FARTHEST / _NEAREST) ** rng.random(), _NEAR)

    def changed(
        name: str, change: Callable[..., NDArray[Any]], *given: Any, few: bool = False, ties: bool = False
    ) -> Mixture:
        made = {
            each: change(array, dtypes[each], *given, rng) if each in free else array for each, array in nominal.items()
        }
        return Mixture(name=name, inputs=made, few=few, ties=ties)

    yield changed("elements near known ones", _nearby, share)
    yield changed("a few elements near known ones", _with_few_changed, share)
    for name, sign in (("a lone largest element", 1.0), ("a lone smallest element", -1.0)):
        planted = {
            each: _with_lone(array, [other[each] for other in others], dtypes[each], sign, rng)
            if each in free
            else array
            for each, array in nominal.items()
        }
        yield Mixture(name=name, inputs=planted, few=True)
    if any(array.ndim > 1 for array in movable.values()):
        rows = {**nominal, **_rows_of_all(movable, others, rng)}
        yield Mixture(name="rows of all distributions", inputs=rows, few=False)
    yield changed("equal elements and zeros", _with_equals, few=True, ties=True)
    outputs = [each for each in operands if each.role in JUDGED]
    if all(stored(each.dtype).itemsize > 1 for each in outputs if is_floating(each.dtype)):
        yield changed("whole numbers", _rounded, few=True, ties=True)
        structured = changed("rows with a structure", _structured, few=True, ties=True)
        yield replace(structured, inputs={**structured.inputs, **_with_shared_rows(structured.inputs, free, rng)})
    if any(not is_floating(each.dtype) or stored(each.dtype).itemsize == 1 for each in outputs):
        yield changed("sorted rows and rows of one sign", _distinct)


def _structured(array: NDArray[Any], dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy in which each row has a random structure. A vector is divided into pieces, which count as rows.

    A row becomes equal to the row before, symmetric, periodic (two alternating numbers), descending, or is rounded to
    `_FEW_BITS` significant bits. If the array contains numbers of both signs, a row may also become non-negative or
    non-positive, get a run of zeros, or be multiplied by `_SMALLER` except for a few blocks. Other rows stay unchanged.
    In about half of the calls, all elements of the array are first rounded to `_FEW_BITS` significant bits. No element
    leaves the range of the array.
    """
    values = decoded(array, dtype).copy()
    rows, known = _rows_in(values), _finite(values.reshape(-1))[1]
    if rows.shape[1] < 2 or not known.size:
        return array.copy()
    low, high, half = known.min(), known.max(), rows.shape[1] // 2
    if rng.integers(2):  # a kernel may be wrong only if all numbers have a low precision
        values[:] = np.clip(_of_low_precision(values), low, high)
    kinds = np.resize(rng.permutation(_STRUCTURES), len(rows))
    symmetric, periodic, descending, short, *signed = (kinds == number for number in range(1, 9))
    rows[symmetric, -half:] = rows[symmetric, :half][:, ::-1]
    rows[periodic] = rows[periodic][:, np.arange(rows.shape[1]) % 2]
    rows[descending] = np.sort(rows[descending], axis=1)[:, ::-1]
    rows[short] = np.clip(_of_low_precision(rows[short]), low, high)
    if low < 0 < high:
        positive, negative, with_zeros, with_blocks = signed
        rows[positive] = np.minimum(np.abs(rows[positive]), high)
        rows[negative] = np.maximum(-np.abs(rows[negative]), low)
        _add_zeros(rows, np.flatnonzero(with_zeros), rng)
        _add_blocks(rows, np.flatnonzero(with_blocks), rng)
    repeated = np.flatnonzero(kinds[1:] == 0) + 1
    rows[repeated] = rows[repeated - 1]
    return encoded(values, dtype)


def _rows_in(values: NDArray[Any]) -> NDArray[Any]:
    """Return a view of the rows of an array, shape (rows, length). The pieces of a vector count as rows.

    The last elements of a vector may belong to no piece.
    """
    length = values.shape[-1] if values.ndim > 1 else min(max(2, values.size // _PIECES), values.size)
    count = values.size // length if length else 0
    rows: NDArray[Any] = values.reshape(-1)[: count * length].reshape(count, length)
    return rows


def _add_zeros(rows: NDArray[Any], chosen: NDArray[np.intp], rng: np.random.Generator) -> None:
    """Write a run of zeros into each chosen row: at its start, at its end or at a random position.

    At least an eighth of each row is not overwritten.
    """
    length, places = rows.shape[1], np.arange(rows.shape[1])
    sizes = rng.integers(1, max(2, 7 * length // 8), size=len(chosen))
    rest = length - sizes
    firsts = np.choose(np.arange(len(chosen)) % 3, [np.zeros_like(rest), rest, rng.integers(rest + 1)])
    run = (firsts[:, None] <= places) & (places < (firsts + sizes)[:, None])
    rows[chosen] = np.where(run, 0, rows[chosen])


def _add_blocks(rows: NDArray[Any], chosen: NDArray[np.intp], rng: np.random.Generator) -> None:
    """Multiply all but a few random blocks of the chosen rows by `_SMALLER`."""
    length = rows.shape[1]
    for part, elements in zip(np.array_split(rng.permutation(chosen), len(_BLOCKS)), _BLOCKS, strict=True):
        size = min(elements, max(1, length // 4))
        count = -(-length // size)
        small = rng.random((len(part), count)) >= min(0.5, _LARGE_BLOCKS / count)
        rows[part] *= np.where(
            np.repeat(small, size, axis=1)[:, :length], rows.dtype.type(_SMALLER), rows.dtype.type(1)
        )


def _distinct(array: NDArray[Any], dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy in which each row is sorted, made non-negative or non-positive, or gets a single zero.

    Different elements of a row stay different, except that opposite numbers may become equal. Only an array with
    numbers of both signs gets rows of one sign and zeros. No element leaves the range of the array.
    """
    values = decoded(array, dtype).copy()
    rows, known = _rows_in(values), _finite(values.reshape(-1))[1]
    if rows.shape[1] < 2 or not known.size:
        return array.copy()
    low, high = known.min(), known.max()
    kinds = np.resize(rng.permutation(5), len(rows))
    rows[kinds == 0] = np.sort(rows[kinds == 0], axis=1)
    rows[kinds == 1] = np.sort(rows[kinds == 1], axis=1)[:, ::-1]
    if low < 0 < high:
        # a larger magnitude than the range permits stays as it is, so that no elements become equal
        positive, negative = np.abs(rows[kinds == 2]), -np.abs(rows[kinds == 3])
        rows[kinds == 2] = np.where(positive > high, rows[kinds == 2], positive)
        rows[kinds == 3] = np.where(negative < low, rows[kinds == 3], negative)
        zero = np.flatnonzero((kinds == 4) & (rows != 0).all(axis=1))
        rows[zero, rng.integers(rows.shape[1], size=len(zero))] = 0
    return encoded(values, dtype)


def _of_low_precision(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers rounded to `_FEW_BITS` significant bits."""
    fractions, exponents = np.frexp(values)
    rounded: NDArray[Any] = np.ldexp(np.rint(np.ldexp(fractions, _FEW_BITS)), exponents - _FEW_BITS)
    return rounded.astype(values.dtype)


def _with_shared_rows(inputs: Arrays, names: Collection[str], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return copies, by name, of inputs in which about a quarter of the rows are replaced by rows of another input.

    Both inputs have the same shape, the same dtype and at least two dimensions, and a row is replaced by the row at the
    same position. A row is not replaced if the other row has an element outside the range of the changed input. Inputs
    without such another input, and inputs whose dtype is no floating-point dtype of NumPy, are left out.
    """
    found: dict[str, NDArray[Any]] = {}
    last: dict[tuple[Any, ...], NDArray[Any]] = {}
    for name in sorted(names):
        array = inputs[name]
        other = last.get((array.shape, array.dtype))
        last[array.shape, array.dtype] = array
        if other is None or array.ndim < 2 or array.dtype.kind != "f":
            continue
        found[name] = array.copy()
        rows, given = (each.reshape(-1, array.shape[-1]) for each in (found[name], other))
        fits = (given >= array.min()).all(axis=1) & (given <= array.max()).all(axis=1)
        taken = fits & (rng.integers(4, size=len(rows)) == 0)
        rows[taken] = given[taken]
    return found


def _with_lone(
    array: NDArray[Any], others: Sequence[NDArray[Any]], dtype: str, sign: float, rng: np.random.Generator
) -> NDArray[Any]:
    """Return a copy in which one element of some rows is an outlier.

    The number of these rows is a quarter of all rows, but at least 1 and at most `_OUTLIERS`. The value of the outlier
    is the largest (`sign` 1) or smallest (-1) finite element of `others`. If `others` have no finite element, or the
    array has fewer than two elements, nothing changes.
    """
    found = array.copy()
    if array.size < 2:  # the changed element would not be an outlier
        return found
    extremes = [_extreme(other, dtype, sign) for other in others]
    known = [each for each in extremes if each is not None]
    if known:
        rows = found.reshape(-1, array.shape[-1])
        chosen = rng.permutation(len(rows))[: max(1, min(_OUTLIERS, len(rows) // 4))]
        rows[chosen, _outlier_places(rows.shape[1], len(chosen), rng)] = max(known, key=lambda each: sign * each[0])[1]
    return found


def _outlier_places(length: int, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return `count` random positions in rows of the given length.

    On average, half of them are among the last `_ENDS` elements, and a quarter among the first `_ENDS` elements.
    """
    anywhere, distances = rng.integers(length, size=count), rng.integers(min(_ENDS, length), size=count)
    kinds = np.resize(rng.permutation(4), count)
    places: NDArray[np.intp] = np.choose(kinds, [distances, length - 1 - distances, length - 1 - distances, anywhere])
    return places


def _with_equals(array: NDArray[Any], dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy in which some elements equal the previous element or their row's common value, or are zero.

    Each row has one of these three kinds of changes. Its common value is a random finite element of the array. The
    fraction of changed elements is one of `_EQUAL_SHARES`, or the smaller one in rows shorter than `_LONG_ROW`. If all
    elements have the same sign, as variances do, no element becomes zero.
    """
    found = array.copy()
    flat = found.reshape(-1)
    if flat.size < 2:
        return found
    finite, values = _finite(decoded(flat, dtype))
    signed = bool(values.size) and values.min() < 0 < values.max()
    rows = flat.size // array.shape[-1] if array.ndim > 1 else min(_PIECES, flat.size)
    length = -(-flat.size // rows)
    shares = np.array(_EQUAL_SHARES if length >= _LONG_ROW else _EQUAL_SHARES[:1], np.float32)
    drawn = np.resize(rng.permutation(3 * len(shares)).astype(np.uint8), rows)
    changed = rng.random(flat.size, np.float32) < np.repeat(shares[drawn // 3], length)[: flat.size]
    kind = np.repeat(drawn % 3, length)[: flat.size]
    kind[~changed] = 3
    last = np.arange(flat.size, dtype=np.int32 if flat.size < 1 << 31 else np.int64)
    last[kind == 0] = 0
    flat[:] = flat[np.maximum.accumulate(last, out=last)]
    if values.size:
        # each row has its own common value, so that the rounding errors of different values are averaged
        places = rng.integers(values.size, size=rows) if finite is None else rng.choice(finite, size=rows)
        common = np.repeat(array.reshape(-1)[places], length)[: flat.size]
        flat[kind == 1] = common[kind == 1]
    if signed:
        zeros = np.flatnonzero(kind == 2)
        flat[zeros] = encoded(np.array([0.0, -0.0], np.float32), dtype)[rng.integers(2, size=zeros.size)]
    return found


def _rounded(array: NDArray[Any], dtype: str, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy whose finite elements are multiples of the power of two that is nearest to their root mean square.

    An element that would leave the range of the array is rounded towards zero. It is not rounded if it would still
    leave the range, if its row would become constant, or if it would become zero although the array does not contain
    numbers of both signs.

    On average, one in `_SORTED_ONE_IN` rows is sorted if all its elements are finite. If the array has a single row,
    its first part is sorted. In about half of the calls, the sorted elements are not rounded.
    """
    if array.size < 2:
        return array.copy()
    values = decoded(array, dtype)
    _, known = _finite(values.reshape(-1))
    scale = float(np.sqrt(np.mean(np.square(known, dtype=np.float64)))) if known.size else 0.0
    if not 0.0 < scale < np.inf:
        return array.copy()
    unit = values.dtype.type(2.0 ** round(math.log2(scale)))
    low, high = known.min(), known.max()
    with np.errstate(invalid="ignore"):  # infinite elements stay infinite
        whole = np.rint(values / unit) * unit
        beyond = (whole < low) | (whole > high)
        kept = (whole == 0) & (not low < 0 < high)
    whole[beyond] = np.trunc(values[beyond] / unit) * unit
    kept |= (whole < low) | (whole > high)
    whole[kept] = values[kept]
    rows, before = whole.reshape(-1, array.shape[-1]), values.reshape(-1, array.shape[-1])
    constant = (rows == rows[:, :1]).all(axis=1)
    rows[constant] = before[constant]
    length = rows.shape[1] if len(rows) > 1 else rows.shape[1] // _SORTED_ONE_IN  # a part of a single row is sorted
    chosen = np.flatnonzero(rng.integers(_SORTED_ONE_IN, size=len(rows)) == 0) if len(rows) > 1 else np.array([0])
    chosen = chosen[np.isfinite(rows[chosen, :length]).all(axis=1)]
    ascending = before if rng.integers(2) else rows  # without rounding, no neighbours are equal
    rows[chosen, :length] = np.sort(ascending[chosen, :length], axis=1)
    return encoded(rows.reshape(array.shape), dtype)


def _nearby(array: NDArray[Any], dtype: str, share: float, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy in which each element is reduced by a random fraction of its value, at most `share`.

    The reduced elements stay in the range of their dtype.
    """
    values = decoded(array, dtype)
    with np.errstate(invalid="ignore"):  # infinite elements stay infinite
        kept = rng.random(array.shape)
        kept *= share
        np.subtract(1.0, kept, out=kept)
        kept *= values
    return encoded(kept.astype(values.dtype), dtype)


def _with_few_changed(array: NDArray[Any], dtype: str, share: float, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy in which up to `_MOST_CHANGED` elements differ slightly and stay in the range of the array.

    All of these elements differ by the same amount, unless it is reduced to stay in the range. The amount is drawn
    between `share` times the root mean square of the elements and `share` times their Euclidean norm. If a single
    element differs by the larger amount, the relative L2 error of the array is `share`.
    """
    found, values = array.copy(), decoded(array, dtype).reshape(-1)
    finite, known = _finite(values)
    if array.size < 2 or not known.size:
        return found
    count = min(known.size, int(rng.integers(1, _MOST_CHANGED + 1)))
    chosen = rng.choice(known.size if finite is None else finite, count, replace=False)
    low, high = float(known.min()), float(known.max())
    squares = known.astype(np.float64)
    scale = np.sqrt(np.mean(np.square(squares, out=squares)))
    change = share * scale * array.size ** rng.uniform(0.0, 0.5)
    before = values[chosen].astype(np.float64)
    changed = np.where(before + change <= high, before + change, before - change)
    found.reshape(-1)[chosen] = encoded(np.clip(changed, low, high).astype(decoded(array, dtype).dtype), dtype)
    return found


def _extreme(array: NDArray[Any], dtype: str, sign: float) -> tuple[float, Any] | None:
    """Return the largest (`sign` 1) or smallest (-1) finite element: as a float, and in the array's dtype.

    Return None if no element is finite.
    """
    stored = array.reshape(-1)
    values = decoded(stored, dtype)
    values = values * np.result_type(values.dtype, np.float32).type(sign)
    values[~np.isfinite(values)] = -np.inf
    index = int(np.argmax(values))
    return (sign * float(values[index]), stored[index]) if np.isfinite(values[index]) else None


def _finite(values: NDArray[Any]) -> tuple[NDArray[np.int64] | None, NDArray[Any]]:
    """Return the indices of the finite elements of a vector, and these elements.

    If all elements are finite, return None and the vector, because the indices of large vectors take much memory.
    """
    mask = np.isfinite(values)
    if mask.all():
        return None, values
    indices = np.flatnonzero(mask)
    return indices, values[indices]


def _rows_of_all(nominal: Arrays, others: Sequence[Arrays], rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return the nominal inputs, with each row taken from a random distribution: the nominal one or one of `others`.

    In inputs with the same number of rows, corresponding rows are from the same distribution. Inputs with fewer than
    two dimensions, and inputs with repetitions along an axis other than the last (see `_repeats`), are only copied.
    """
    choices: dict[int, NDArray[np.int64]] = {}
    found: dict[str, NDArray[Any]] = {}
    for name, array in nominal.items():
        found[name] = array.copy()
        if array.ndim < 2 or _repeats(array, range(array.ndim - 1)):
            continue
        rows = array.size // array.shape[-1]
        chosen = choices.setdefault(rows, rng.integers(len(others) + 1, size=rows))
        for number, other in enumerate(others, start=1):
            taken = chosen == number
            found[name].reshape(rows, -1)[taken] = other[name].reshape(rows, -1)[taken]
    return found


def _repeats(array: NDArray[Any], axes: Iterable[int]) -> bool:
    """Return True if the array has repetitions along one of the axes, of one of these kinds.

    - All elements along the axis are equal.
    - The axis has an even length, and its two halves are equal.
    - The axis has an even length, and each element at an even index equals the next element.
    """
    for axis in axes:
        along, size = np.moveaxis(array, axis, 0), array.shape[axis]
        pairs = [(along[1:], along[:-1])] if size > 1 else []
        if size > 1 and size % 2 == 0:
            pairs += [(along[: size // 2], along[size // 2 :]), (along[::2], along[1::2])]
        if any(np.array_equal(one[:1], other[:1]) and np.array_equal(one, other) for one, other in pairs):
            return True
    return False


def _ordered(array: NDArray[Any]) -> bool:
    """Return True if the array is in ascending order or symmetric, so that exchanging elements would make it invalid.

    The order is examined along the first and along the last axis. A constant array is not ordered. Of several square
    matrices, only the first is examined for symmetry. The result is False for fewer than three elements.
    """
    if array.size < 3:
        return False
    if array.ndim >= 2 and array.shape[-1] == array.shape[-2] > 1:
        one = array.reshape(-1, *array.shape[-2:])[0]
        if np.array_equal(one, one.T):
            return True
    steps = [(array[..., :-1], array[..., 1:]), (array[:-1], array[1:])]
    return any(bool((after >= before).all() and (after > before).any()) for before, after in steps)
