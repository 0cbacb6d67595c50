"""Floating-point dtypes that NumPy lacks, stored as arrays of their bit codes.

`float8_e4m3` is OCP's E4M3 (OCP 8-bit Floating Point Specification 1.0). It has no infinity, its NaN is 0x7f, and its
largest number is 448. PyTorch and ONNX call it ``float8_e4m3fn``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from evo.reference import Array
from evo.reference.pieces import in_pieces

_FLOAT32_BIAS = 127
_FLOAT32_MANTISSA_BITS = 23
_BELOW = 15
"""Number of low bits of a float32. To find the nearest 8-bit number, it suffices to know whether any of them is set.
"""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A floating-point format with fewer bits than float32.

    Attributes:
        bits: number of bits of a code, including the sign.
        mantissa_bits: number of bits of the mantissa.
        bias: bias of the exponent.
        largest: code of the number to which numbers above the range are rounded.
        nan: a code of NaN.
        infinity: code of infinity; None if the format has no infinity.
    """

    bits: int
    mantissa_bits: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None


FORMATS: Mapping[str, Format] = {
    "bfloat16": Format(bits=16, mantissa_bits=7, bias=127, largest=0x7F80, nan=0x7FC0, infinity=0x7F80),
    "float8_e4m3": Format(bits=8, mantissa_bits=3, bias=7, largest=0x7E, nan=0x7F),
    "float8_e5m2": Format(bits=8, mantissa_bits=2, bias=15, largest=0x7B, nan=0x7F, infinity=0x7C),
}
"""Formats by dtype. Numbers above the range become the largest number in the 8-bit formats, as with `cvt.satfinite` of
PTX, and infinity in bfloat16.
"""


def stored(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype that stores a dtype of family.toml: an integer dtype for codes if NumPy lacks it."""
    return np.dtype(f"uint{FORMATS[dtype].bits}" if dtype in FORMATS else dtype)


def is_floating(dtype: str) -> bool:
    return dtype in FORMATS or np.issubdtype(np.dtype(dtype), np.floating)


def largest(dtype: str) -> float:
    """Return the largest finite number of a floating-point dtype of family.toml."""
    if dtype not in FORMATS:
        return float(np.finfo(dtype).max)
    numbers = _numbers(dtype)
    return float(numbers[np.isfinite(numbers)].max())


def decoded(codes: Array, dtype: str) -> Array:
    """Return codes as float32 numbers. If NumPy has the dtype, the array contains numbers, and is returned unchanged.

    Args:
        codes: NumPy or CuPy array. The result is an array of the same library.
        dtype: dtype of the codes, as in family.toml.
    """
    if dtype not in FORMATS:
        return codes
    if not _is_numpys(codes):
        return _decoded(codes, dtype)
    flat = np.ascontiguousarray(codes).reshape(-1)
    numbers = np.empty(flat.size, np.float32)

    def decode(piece: slice) -> None:
        numbers[piece] = _decoded(flat[piece], dtype)

    in_pieces(decode, flat.size)
    return numbers.reshape(codes.shape)


def encoded(values: Array, dtype: str) -> Array:
    """Return numbers as codes of a dtype, rounded to nearest, ties to even. If NumPy has the dtype, the array is cast.

    Args:
        values: NumPy or CuPy array of numbers. The result is an array of the same library. Before numbers are converted
            to codes, they are rounded to float32.
        dtype: dtype of the result, as in family.toml.
    """
    if stored(dtype) == values.dtype and dtype not in FORMATS:
        return values
    if not _is_numpys(values):
        return _encoded(values, dtype)
    flat, codes = np.ascontiguousarray(values).reshape(-1), np.empty(values.size, stored(dtype))

    def encode(piece: slice) -> None:
        codes[piece] = _encoded(flat[piece], dtype)

    in_pieces(encode, flat.size)
    return codes.reshape(values.shape)


def rounded(values: Array, dtype: str) -> Array:
    """Return numbers rounded to a dtype, as an array of this dtype or, if NumPy lacks the dtype, of float32."""
    return decoded(encoded(values, dtype), dtype)


def _decoded(codes: Array, dtype: str) -> Array:
    if dtype != "bfloat16":
        return _lookup(_numbers(dtype), codes)
    numbers: Array = (codes.astype(np.uint32) << 16).view(np.float32)  # a bfloat16 is the upper half of a float32
    return numbers


def _encoded(values: Array, dtype: str) -> Array:
    if dtype not in FORMATS:
        return values.astype(dtype)
    values = values.astype(np.float32, copy=False)
    if dtype == "bfloat16":
        return _bfloat16(values)
    bits = values.view(np.uint32)
    return _lookup(_codes(dtype), bits >> _BELOW | ((bits & ((1 << _BELOW) - 1)) != 0))


def _bfloat16(values: Array) -> Array:
    bits = values.view(np.uint32)
    codes = bits >> 16
    codes &= 1
    codes += 0x7FFF  # half a unit of the last place, or the next smaller number if the code without rounding is even
    codes += bits
    codes >>= 16
    codes = codes.astype(np.uint16)
    missing = np.isnan(values)
    if missing.any():
        codes[missing] = FORMATS["bfloat16"].nan | bits[missing] >> 31 << 15
    return codes


def _is_numpys(values: object) -> bool:
    return isinstance(values, np.ndarray)


def _lookup(table: Array, indices: Array) -> Array:
    """Return the entries of a NumPy table at `indices`. The result is a NumPy or CuPy array, like `indices`."""
    found: Array = np.asarray(table, like=indices)[indices]
    return found


@cache
def _codes(dtype: str) -> Array:
    """Return a table with the 8-bit code of the nearest number, indexed by 17 bits of a float32.

    The index consists of the upper 16 bits, and of one bit that is set if any of the lower 16 bits is set.
    """
    return _nearest((np.arange(1 << (32 - _BELOW), dtype=np.uint32) << _BELOW).view(np.float32), dtype)


def _nearest(values: Array, dtype: str) -> Array:
    form = FORMATS[dtype]
    magnitudes, missing = np.abs(values), np.isnan(values)
    magnitudes[missing] = 0
    codes = _rounded(magnitudes, form)
    codes[missing] = form.nan
    signs = (values.view(np.int32) < 0).astype(np.int32) << (form.bits - 1)
    signed: Array = np.bitwise_or(codes, signs).astype(stored(dtype))
    return signed


def _rounded(magnitudes: Array, form: Format) -> Array:
    """Return the codes of non-negative float32 numbers, rounded to nearest, ties to even."""
    dropped = _FLOAT32_MANTISSA_BITS - form.mantissa_bits
    bits = magnitudes.view(np.int32)
    half_and_even = (1 << (dropped - 1)) - 1 + ((bits >> dropped) & 1)
    codes = ((bits + half_and_even) >> dropped) - ((_FLOAT32_BIAS - form.bias) << form.mantissa_bits)
    small = codes < 1 << form.mantissa_bits
    codes[small] = np.rint(np.ldexp(magnitudes[small], form.bias - 1 + form.mantissa_bits))
    limited: Array = np.minimum(codes, form.largest)
    return limited


@cache
def _numbers(dtype: str) -> Array:
    """Return the float32 value of every code of a dtype, indexed by code."""
    form = FORMATS[dtype]
    codes = np.arange(1 << form.bits)
    magnitude = codes & ((1 << (form.bits - 1)) - 1)
    exponent = magnitude >> form.mantissa_bits
    leading = np.where(exponent > 0, 1 << form.mantissa_bits, 0)
    significand = leading + (magnitude & ((1 << form.mantissa_bits) - 1))
    numbers = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - form.bias - form.mantissa_bits)
    numbers[magnitude > form.largest] = np.nan
    numbers[magnitude == form.infinity] = np.inf
    return np.asarray(np.where(codes > magnitude, -numbers, numbers), np.float32)


def rounded_to(values: Any, dtype: str) -> Any:
    """Return float32 numbers (NumPy or CuPy) rounded to ``float16`` or ``bfloat16``, as float32."""
    return rounded(values, dtype).astype(np.float32, copy=False)
