"""Packs named arrays into bytes for the cache, and unpacks them without copying."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.measure.family.expected_output import Arrays

_ALIGNMENT = 64
"""Each array starts at a multiple of this number of bytes. No dtype of NumPy needs a larger alignment than 16 bytes."""


def pack(arrays: Arrays) -> bytes:
    """Return a line of JSON with the name, dtype, shape and position of each array, followed by the arrays."""
    described: list[tuple[str, str, tuple[int, ...], int]] = []
    parts: list[bytes | memoryview] = []
    end = 0
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        described.append((name, array.dtype.str, array.shape, end))
        padding = -data.nbytes % _ALIGNMENT
        parts += [data, bytes(padding)]
        end += data.nbytes + padding
    header = json.dumps(described).encode()
    return b"".join([header, b" " * (-(len(header) + 1) % _ALIGNMENT), b"\n", *parts])


def unpack(packed: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays from the result of `pack`, by name. They are read-only, and share the memory of `packed`."""
    start = packed.index(b"\n") + 1
    return {
        name: np.ndarray(tuple(shape), np.dtype(dtype), packed, start + offset)
        for name, dtype, shape, offset in json.loads(packed[:start])
    }
