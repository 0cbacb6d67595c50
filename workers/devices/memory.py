"""Kernel arguments in host memory, with a guard band on both sides of every buffer."""

import ctypes
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from workers.devices import Buffers, LaunchError
from workers.distance import POISON, Distance, distance
from workers.kernel import Argument

GUARD_BYTES = 4096
"""Of each band; a page, so that the data between them starts on a page as well."""

_SCALARS: Mapping[str, type[Any]] = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


class GuardedArray:
    """An array whose surroundings can be checked; the trailing band starts at the very next byte."""

    def __init__(self, argument: Argument) -> None:
        self.argument = argument
        size = argument.bytes
        self._whole = _aligned(size + 2 * GUARD_BYTES)
        self.bytes = self._whole[GUARD_BYTES : GUARD_BYTES + size]
        self.values: NDArray[Any] = self.bytes.view(argument.stored).reshape(argument.shape)
        self._bands = {"before": self._whole[:GUARD_BYTES], "after": self._whole[GUARD_BYTES + size :]}
        self.guard()

    def guard(self) -> None:
        """Fill both bands."""
        for band in self._bands.values():
            band.fill(POISON)

    def overrun(self) -> str | None:
        """Which band was written and where, or None."""
        for side, band in self._bands.items():
            hit = np.flatnonzero(band != POISON)
            if hit.size:
                distance = int(hit[0]) if side == "after" else GUARD_BYTES - int(hit[-1]) - 1
                return (
                    f"writes out of bounds: {hit.size} bytes of the guard band {side} `{self.argument.name}`, "
                    f"the nearest {distance} bytes from the buffer"
                )
        return None


class HostBuffers:
    """A `workers.devices.Buffers` in host memory.

    Args:
        beside: share the inputs of this set, which are then right there already.

    Attributes:
        call_arguments: what a ctypes function is called with, in order.
    """

    def __init__(
        self,
        arguments: Sequence[Argument],
        inputs: Mapping[str, NDArray[Any]],
        *,
        beside: "HostBuffers | None" = None,
    ) -> None:
        self._arguments, self._inputs = arguments, inputs
        shared: dict[str, GuardedArray] = {} if beside is None else {name: beside._arrays[name] for name in inputs}
        self._arrays: dict[str, GuardedArray] = {
            argument.name: shared.get(argument.name) or GuardedArray(argument)
            for argument in arguments
            if argument.role != "scalar"
        }
        for name, values in inputs.items():
            if beside is None:
                self._arrays[name].values[...] = values
        self.call_arguments = [self._call_argument(argument) for argument in arguments]
        written = [array for array in self._arrays.values() if array.argument.role != "input"]
        self._outputs = [array.bytes for array in written if array.argument.role == "output"]
        self._places = [(array.bytes.ctypes.data, array.bytes.size) for array in written]
        self.poison()

    @property
    def bytes_held(self) -> int:
        return sum(array.bytes.size for array in self._arrays.values())

    def poison(self, byte: int = POISON) -> None:
        for array in self._arrays.values():
            array.guard()
            if array.argument.role != "input":
                array.bytes.fill(byte)

    def sibling(self) -> "HostBuffers":
        return HostBuffers(self._arguments, self._inputs, beside=self)

    def rewrite(self, source: Buffers) -> None:
        for (own, size), (other, _) in zip(self._places, cast(HostBuffers, source)._places, strict=True):
            ctypes.memmove(own, other, size)

    def refill(self, source: Buffers) -> None:
        self._inputs = cast(HostBuffers, source)._inputs
        for name, values in self._inputs.items():
            self._arrays[name].values[...] = values

    def same_outputs(self, other: Buffers) -> bool:
        return all(map(np.array_equal, self._outputs, cast(HostBuffers, other)._outputs))

    def read(self, name: str) -> NDArray[Any]:
        return self._arrays[name].values.copy()

    def distance(self, name: str, reference: NDArray[np.float64]) -> Distance:
        array = self._arrays[name]
        return distance(array.values, reference, array.argument.dtype)

    def fingerprint(self, name: str) -> int:
        return int.from_bytes(blake2b(self._arrays[name].bytes.data, digest_size=8).digest())

    def output_prints(self) -> list[int]:
        """The fingerprint of each output."""
        return [self.fingerprint(name) for name, array in self._arrays.items() if array.argument.role == "output"]

    def damage(self) -> str | None:
        for array in self._arrays.values():
            if overrun := array.overrun():
                return overrun
        for name, original in self._inputs.items():
            if not np.array_equal(self._arrays[name].bytes, _bytes(original)):
                return f"modifies its input `{name}`"
        return None

    def _call_argument(self, argument: Argument) -> object:
        if argument.role != "scalar":
            return ctypes.c_void_p(self._arrays[argument.name].bytes.ctypes.data)
        if argument.dtype not in _SCALARS:
            raise LaunchError(f"scalar `{argument.name}`: {argument.dtype} cannot be passed; use {', '.join(_SCALARS)}")
        return _SCALARS[argument.dtype](argument.value)


def _aligned(size: int) -> NDArray[np.uint8]:
    """Starting on a page: alignment must not be what makes one candidate faster than another."""
    whole = np.empty(size + GUARD_BYTES, np.uint8)
    start = -whole.ctypes.data % GUARD_BYTES
    return whole[start : start + size]


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
