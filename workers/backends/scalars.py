"""Converts scalar arguments of kernels to ctypes values."""

import ctypes
from collections.abc import Mapping
from typing import Any

from workers.backends import LaunchError
from workers.build.kernel import Argument

_TYPES: Mapping[str, type[Any]] = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


def scalar(argument: Argument) -> Any:
    """Return the value of a scalar argument as a ctypes object.

    Raises:
        LaunchError: ctypes has no type for the scalar's dtype.
    """
    if argument.dtype not in _TYPES:
        accepted = ", ".join(_TYPES)
        raise LaunchError(f"scalar `{argument.name}`: {argument.dtype} cannot be passed; use one of {accepted}")
    return _TYPES[argument.dtype](argument.value)
