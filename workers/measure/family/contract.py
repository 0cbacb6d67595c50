"""Checks the arrays created by a family's reference.py against the declarations in family.toml."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.family import Operand, Role
from evo.reference.encoding import FORMATS, decoded, encoded, is_floating, stored
from evo.reference.pieces import copied, in_pieces
from workers.backends.distance import EXACT_INTEGERS
from workers.measure.family.expected_output import Arrays, FamilyError

_SQUARABLE = 1e-150, 1e150
"""Range of magnitudes whose squares float64 can sum without overflow or underflow, as relative L2 errors require."""


def check_names(made: Arrays, operands: Sequence[Operand], roles: Sequence[Role], *, case: str, maker: str) -> None:
    """Require one array for each operand of the given roles, and no other arrays.

    Args:
        made: the arrays by name.
        roles: roles of the operands. If an array is not declared, the error message suggests the first role.
        case: name of the case, used in error messages.
        maker: name of the function that returned the arrays, used in error messages.

    Raises:
        FamilyError: an array is missing, or family.toml does not declare it.
    """
    role, declared = roles[0], {each.name: each.role for each in operands if each.role in roles}
    for name, declared_role in declared.items():
        if name not in made:
            raise FamilyError(
                f"{maker} must return the {declared_role} `{name}` for case {case}, but returned {_listed(made)}"
            )
    for name in made:
        if name not in declared:
            raise FamilyError(
                f"{maker}: returns `{name}` for case {case}, but family.toml declares no {role} `{name}`. Remove "
                f'`{name}` from the result, or declare it under [[arguments]] with role = "{role}"'
                + (". Kernels without this parameter omit it from their `arguments`" if role == "input" else "")
            )


def check_input(operand: Operand, made: Any, *, case: str, maker: str) -> NDArray[Any]:
    """Return a contiguous copy of an input in native byte order, checked against family.toml.

    Raises:
        FamilyError: the input is not an array, or its shape or dtype differs from the declaration.
    """
    array, where = array_of(made, operand, maker), f"{maker}: returns `{operand.name}` of case {case}"
    expected = stored(operand.dtype)
    if array.shape != operand.shape or array.dtype.newbyteorder("=") != expected:
        declared = f"family.toml declares {expected.name} {operand.shape}{_codes(operand)}"
        same = array.shape == operand.shape and not _codes(operand)
        remedy = f"; return np.asarray({operand.name}, dtype=np.{expected.name})" if same else ""
        raise FamilyError(f"{where} as {array.dtype.name} {array.shape}; {declared}{remedy}")
    if expected == np.bool_:  # NumPy treats bytes other than 0 and 1 as True, but kernels may not
        return np.ascontiguousarray(array.view(np.uint8) != 0)
    return copied(array.astype(expected, copy=False))


def check_reference(operand: Operand, made: Any, *, case: str, maker: str) -> NDArray[Any]:
    """Check the expected values of an output, and return them.

    The dtype of the result is float64 for a floating-point output. For an integer or bool output, it is the dtype of
    the output, or float64 if some values are fractions.

    Raises:
        FamilyError: the shape differs from the declaration, the values are rounded more than the tolerance allows, or
            no kernel can write a value: NaN, infinity, a value outside the range of the output's dtype, or a fraction
            without an integer within the tolerance.
    """
    array, where = array_of(made, operand, maker), f"{maker}: `{operand.name}` of case {case}"
    if array.shape != operand.shape:
        shorter = array.ndim == 1 == len(operand.shape) and array.size < operand.shape[0]
        remedy = ". If the inputs determine its length, declare `init` and `verified = true`, and write verify()"
        raise FamilyError(f"{where} has shape {array.shape}; family.toml declares {operand.shape}{remedy * shorter}")
    if is_floating(operand.dtype):
        _refuse_rounded(operand, array, where)
        return _of_floats(operand, array, where)
    return _reachable(operand, _of_integers(operand, array, where), where)


def _refuse_rounded(operand: Operand, array: NDArray[Any], where: str) -> None:
    """Refuse values in a dtype so narrow that their rounding alone exceeds the tolerance of a correct kernel.

    Rounding to nearest gives values of one dtype a relative L2 error of about a quarter of its machine epsilon.
    """
    if array.dtype.kind != "f" or operand.tolerance is None or array.dtype.itemsize >= stored(operand.dtype).itemsize:
        return
    rounded = float(np.finfo(array.dtype).eps) / 4
    if 0 < operand.tolerance.rel_l2 < rounded:
        name = array.dtype.name
        raise FamilyError(
            f"{where} has dtype {name}, whose values are rounded by about {rounded:.1e}, more than "
            f"rel_l2 = {operand.tolerance.rel_l2:g} allows; compute in float64, e.g. with inputs converted by "
            ".astype(np.float64)"
        )


def check_yardstick(operand: Operand, values: NDArray[Any], where: str) -> NDArray[Any]:
    """Check the values that ``yardstick()`` returned for an output, and return them. Integers are converted exactly.

    Raises:
        FamilyError: an integer output has values that float64 rounds, or that the output's dtype cannot represent.
    """
    return values if is_floating(operand.dtype) else _of_integers(operand, values, where)


def array_of(made: Any, operand: Operand, maker: str) -> NDArray[Any]:
    """Return an input or output of reference.py as an array in host memory. Python integers are not rounded.

    Raises:
        FamilyError: the values are not real numbers, or the array is masked.
    """
    made = on_host(made)
    if isinstance(made, np.ma.MaskedArray):
        raise FamilyError(f"{maker}: `{operand.name}` is a masked array; return a plain array, e.g. with .filled(0)")
    array = np.asarray(made)
    if array.dtype.kind == "f" and isinstance(made, list | tuple):  # because NumPy would convert [1, 2**63] to floats
        whole = np.array(made, dtype=object)
        array = whole if whole.shape == array.shape and _are_integers(whole) else array
    if array.dtype == object and array.size and _are_integers(array):
        return _of_python(array, operand, f"{maker}: `{operand.name}`")
    if array.dtype.kind not in "biuf":
        raise FamilyError(f"{maker}: `{operand.name}` has dtype {array.dtype.name}; return real numbers or bools")
    return array


def on_host(made: Any) -> Any:
    """Copy an array of PyTorch, CuPy or JAX to host memory. Return other values unchanged."""
    libraries = {each.__module__.partition(".")[0] for each in type(made).__mro__}
    if "torch" in libraries:
        narrow = str(made.dtype).startswith(("torch.bfloat16", "torch.float8"))  # NumPy has no bfloat16
        return (made.float() if narrow else made).numpy(force=True)
    if libraries & {"jax", "jaxlib"}:
        made = np.asarray(made)
        narrow = made.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")  # of ml_dtypes
        return made.astype(np.float32) if narrow else made
    return made.get() if "cupy" in libraries else made


def _are_integers(array: NDArray[Any]) -> bool:
    return all(isinstance(each, int | np.integer) for each in array.flat)


def _of_python(array: NDArray[Any], operand: Operand, where: str) -> NDArray[Any]:
    """Convert an array of Python integers to int64 or uint64.

    If integers are too large for both and the output is floating-point, convert the array to float64.
    """
    for dtype in (np.int64, np.uint64):
        limits = np.iinfo(dtype)
        if all(limits.min <= each <= limits.max for each in array.flat):
            return array.astype(dtype)
    if not is_floating(operand.dtype):
        kind = stored(operand.dtype)
        low, high = (0, 1) if kind.kind == "b" else (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        wrong = np.array([not low <= each <= high for each in array.flat], np.bool_).reshape(array.shape)
        _refuse(wrong, array, where, f"outside the range of {operand.dtype} ({low} to {high})", _WRITABLE)
    return array.astype(np.float64)


def _of_floats(operand: Operand, array: NDArray[Any], where: str) -> NDArray[np.float64]:
    values, flat = np.empty(array.shape, np.float64), np.ascontiguousarray(array).reshape(-1)
    copied = values.reshape(-1)

    def copy(piece: slice) -> float:
        """Copy the elements of a slice, and return their largest absolute value; NaN if an element is NaN."""
        copied[piece] = flat[piece]
        return float(np.abs(copied[piece]).max(initial=0.0))

    magnitudes = in_pieces(copy, flat.size)
    largest = float(np.max(magnitudes, initial=0.0))
    if not np.isfinite(largest):
        _refuse(~np.isfinite(values), values, where, "NaN or infinite, so no error can be computed", _REMEDIES)
    if not _is_held(np.asarray([largest]), operand.dtype).all():
        beyond = f"outside the range of {operand.dtype}, so a kernel would write infinity"
        _refuse(~_is_held(values, operand.dtype), values, where, beyond, _REMEDIES)
    if largest and not _SQUARABLE[0] < largest < _SQUARABLE[1]:
        reason = f"float64 cannot represent its square, so no relative error can be computed. Remedy: {_REMEDIES}"
        raise FamilyError(f"{where} contains a value of magnitude {largest:.3g}; {reason}")
    return values


def _is_held(values: NDArray[np.float64], dtype: str) -> NDArray[np.bool_]:
    """Return a mask of the values that stay finite in a floating-point dtype. Large values saturate in 8-bit dtypes."""
    with np.errstate(over="ignore"):
        return np.isfinite(decoded(encoded(values, dtype), dtype))


def _of_integers(operand: Operand, values: NDArray[Any], where: str) -> NDArray[Any]:
    dtype = stored(operand.dtype)
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if values.dtype.kind == "f":
        _refuse(~np.isfinite(values), values, where, "NaN or infinite, which integers cannot be", _REMEDIES)
        reason = "2^53 or more, where float64 cannot represent every integer"
        _refuse(np.abs(values) >= EXACT_INTEGERS, values, where, reason, f"return integers, e.g. of {operand.dtype}")
    wide = (values.view(np.uint8) != 0).astype(np.uint8) if values.dtype.kind == "b" else values
    beyond = (wide < low) | (wide > high)
    _refuse(beyond, values, where, f"outside the range of {operand.dtype} ({low} to {high})", _WRITABLE)
    if values.dtype.kind == "f" and not np.array_equal(values, np.floor(values)):
        return values.astype(np.float64)
    return wide.astype(dtype)


def _reachable(operand: Operand, values: NDArray[Any], where: str) -> NDArray[Any]:
    """Check that each expected value of an integer output has an integer within its tolerance. Return the values."""
    limit = None if operand.tolerance is None else operand.tolerance.max_abs
    if values.dtype.kind == "f" and limit is not None:
        remedy = "round the values as the kernel has to round them, or set max_abs = 0.5 or more in family.toml"
        far = np.abs(values - np.rint(values)) > limit
        _refuse(far, values, where, f"farther from every integer than max_abs = {limit:g}", remedy)
    return values


_WRITABLE = "return values that a kernel can write"
_REMEDIES = "change inputs() or reference() so that all expected values are finite numbers"


def _refuse(wrong: NDArray[np.bool_], values: NDArray[Any], where: str, what: str, remedy: str) -> None:
    """Raise `FamilyError` if any element of `wrong` is True. The message has the count and the first wrong value."""
    count = int(np.count_nonzero(wrong))
    if count:
        first = np.argwhere(wrong)[0].tolist()
        shown = values[tuple(first)]
        raise FamilyError(
            f"{where}: {count} of {values.size} elements are {what}; the first is {shown} at {first}. "
            f"The kernel is not at fault; {remedy}"
        )


def _codes(operand: Operand) -> str:
    """Return advice on encoding values in the operand's dtype if NumPy lacks the dtype, else an empty string."""
    if operand.dtype not in FORMATS:
        return ""
    return f", the codes of {operand.dtype}: evo.reference.encoding.encoded(values, {operand.dtype!r})"


def _listed(made: Arrays) -> str:
    return f"only {', '.join(f'`{name}`' for name in made)}" if made else "an empty dict"
