"""Encodes tensor maps with the CUDA driver.

A kernel uses tensor maps to copy tiles with the GPU's TMA unit (sm_90 and newer). The module needs only this file
and the driver.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

BYTES = ALIGNMENT = 128
"""Size and alignment of a ``CUtensorMap`` in bytes."""

ADDRESSES = 16
"""Required alignment of an array's address, in bytes."""

_DTYPES = {
    "uint8": 0,
    "int8": 0,
    "float8_e4m3": 0,
    "float8_e5m2": 0,
    "bool": 0,
    "int16": 1,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bfloat16": 9,
}
"""``CUtensorMapDataType`` of each dtype. Dtypes of one byte are moved as bytes."""

_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2}
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}


class TensorMapError(ValueError):
    """Raised if a tensor map is invalid, or if this driver cannot create it."""


def parameters(address: int, *, passes_shape: bool = False, **described: Any) -> list[Any]:
    """Return a kernel's parameters for a tensor map as ctypes objects: the map and, if requested, shape and strides.

    Args:
        address: device address of the array.
        passes_shape: True if the kernel takes the shape (int32) and the strides in elements (int64) after the map.
        described: arguments of `encode`.

    Raises:
        TensorMapError: see `encode`.
    """
    passed: list[Any] = [encode(address, **described)]
    if passes_shape:
        shape = described["shape"]
        passed += [ctypes.c_int32(extent) for extent in shape]
        passed += [ctypes.c_int64(prod(shape[axis + 1 :])) for axis in range(len(shape))]
    return passed


def encode(
    address: int,
    *,
    of: str,
    dtype: str,
    shape: Sequence[int],
    box: Sequence[int],
    swizzle: int = 0,
    l2_promotion: int = 0,
) -> "ctypes.Array[ctypes.c_char]":
    """Return the encoded tensor map of a contiguous array in device memory. It is passed to a kernel by value.

    Args:
        address: device address of the array.
        of: name of the array in error messages.
        dtype: dtype of the array.
        shape: number of elements along each axis, outermost axis first.
        box: number of elements that one copy moves along each axis. Elements outside the array are copied as zeros.
        swizzle: number of bytes within which 16-byte chunks are permuted in shared memory: 0, 32, 64 or 128.
        l2_promotion: number of bytes that the L2 cache fetches at a time: 0, 64, 128 or 256.

    Raises:
        TensorMapError: the address is not aligned, the driver refuses the map, or the driver does not support maps.
    """
    if address % ADDRESSES:
        raise TensorMapError(f"{of} is not aligned to {ADDRESSES} bytes; pass a copy of it")
    kind, rank = _DTYPES[dtype], len(shape)
    pitches, pitch = [], _SIZES[kind]
    for extent in reversed(shape[1:]):
        pitch *= extent
        pitches.append(pitch)
    made = _aligned()
    status = _encoder()(
        ctypes.byref(made),
        kind,
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(1, rank - 1))(*pitches),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,  # not interleaved
        _SWIZZLES[swizzle],
        _PROMOTIONS[l2_promotion],
        0,  # elements outside the array are zeros
    )
    if status:
        raise TensorMapError(
            f"the driver refuses a tensor map of {of} (error {status}): shape {tuple(shape)}, box {tuple(box)}, "
            f"swizzle {swizzle}; tensor maps need a GPU of sm_90 or newer"
        )
    return made


def _aligned() -> "ctypes.Array[ctypes.c_char]":
    whole = ctypes.create_string_buffer(BYTES + ALIGNMENT)
    return (ctypes.c_char * BYTES).from_buffer(whole, -ctypes.addressof(whole) % ALIGNMENT)


@lru_cache(maxsize=1)
def _encoder() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    except (OSError, AttributeError):
        raise TensorMapError("no CUDA driver for tensor maps was found; install one for CUDA 12 or later") from None
