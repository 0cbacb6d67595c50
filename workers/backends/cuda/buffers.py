"""Array arguments of kernels in GPU memory, with a guard band on both sides of every buffer."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workers.backends import Buffers, LaunchError, Placement, Remembered
from workers.backends.cuda.launch import Restore, cuda_errors
from workers.backends.cuda.memory import DeviceMemory
from workers.backends.distance import POISON, Distance, distance
from workers.build.kernel import Argument

GUARD_BYTES = 4096
MOST_BUFFERS = 64
"""Maximum number of arguments of a kernel. CUDA limits the size of all parameters to 4 KB."""

DISTANCES = ("float16", "bfloat16", "float8_e5m2", "float8_e4m3", "float32", "float64")
"""Dtypes of outputs that the device compares with their expected values. The host compares other outputs, and outputs
whose expected values do not fit in device memory.
"""

Span: TypeAlias = tuple[int, int]
"""Address and size in bytes of a memory range."""


class Kernels(Protocol):
    """Interface of the kernels that check buffers in device memory."""

    def checksums(self, spans: Sequence[Span]) -> list[int]:
        """Return one checksum per span. One launch computes many checksums."""
        ...

    def distance(self, buffer: "GuardedBuffer", reference: NDArray[np.float64]) -> Distance:
        """Return the distance of a buffer from its expected values. The dtype of the buffer must be in `DISTANCES`.

        Raises:
            MemoryError: the expected values do not fit in the free device memory.
        """
        ...


class GuardedBuffer:
    """Device memory for one array, with a guard band directly before and after it."""

    def __init__(self, argument: Argument, memory: DeviceMemory) -> None:
        self.argument = argument
        self.size = argument.bytes
        self._memory = memory
        self._base = memory.allocate(self.size + 2 * GUARD_BYTES)
        self.pointer = self._base + GUARD_BYTES

    def __del__(self) -> None:
        try:
            self._memory.free(self._base)
        except Exception:  # noqa: BLE001 - the context may be dead, and its memory with it
            return

    def fill(self, byte: int) -> None:
        self._memory.fill(self.pointer, byte, self.size)

    def guard(self) -> None:
        for band in self._bands.values():
            self._memory.fill(band, POISON, GUARD_BYTES)

    def write(self, values: NDArray[Any]) -> None:
        """Copy `values` into the buffer. See `DeviceMemory.write`."""
        self._memory.write(self.pointer, np.ascontiguousarray(values))

    def read(self) -> NDArray[Any]:
        host = np.empty(self.argument.shape, self.argument.stored)
        self._memory.read(self.pointer, host)
        return host

    def overrun(self) -> str | None:
        """Return a description of the overwritten bytes in a guard band, or None if there are none."""
        for side, place in self._bands.items():
            band = np.empty(GUARD_BYTES, np.uint8)
            self._memory.read(place, band)
            hit = np.flatnonzero(band != POISON)
            if hit.size:
                distance = int(hit[0]) if side == "after" else GUARD_BYTES - int(hit[-1]) - 1
                return (
                    f"writes out of bounds: {hit.size} bytes of the guard band {side} `{self.argument.name}`, "
                    f"the nearest {distance} bytes from the buffer"
                )
        return None

    @property
    def _bands(self) -> Mapping[str, int]:
        return {"before": self._base, "after": self.pointer + self.size}


class DeviceReferences:
    """Copies of expected outputs in device memory, kept for later comparisons with the same host array.

    Args:
        most_bytes: maximum total size of the kept arrays in bytes. The oldest arrays are removed first. A larger array
            is also kept, but without any other array.
    """

    def __init__(self, memory: DeviceMemory, most_bytes: int) -> None:
        self._memory, self._most_bytes = memory, most_bytes
        self._kept: dict[int, tuple[NDArray[np.float64], GuardedBuffer]] = {}

    def buffer(self, values: NDArray[np.float64]) -> GuardedBuffer:
        """Return the kept copy of `values`, or make one.

        Raises:
            MemoryError: the values do not fit in the free device memory.
        """
        if id(values) not in self._kept:
            while self._kept and sum(each.size for _, each in self._kept.values()) + values.nbytes > self._most_bytes:
                del self._kept[next(iter(self._kept))]
            argument = Argument(name="reference", role="input", dtype="float64", shape=values.shape)
            with cuda_errors():
                buffer = GuardedBuffer(argument, self._memory)
                buffer.write(values)
            self._kept[id(values)] = values, buffer
        return self._kept[id(values)][1]


class DeviceBuffers:
    """A `workers.backends.Buffers` in separate device allocations, because a memory pool would hide overruns.

    Args:
        kernels: kernels that compute checksums, and compare outputs with their expected values.
        sharing: set whose inputs this set also uses. If None, the inputs are copied.

    Raises:
        LaunchError: there are more than `MOST_BUFFERS` arguments.
        MemoryError: the buffers do not fit in the free device memory.

    Attributes:
        pointers: device addresses by argument name.
        restores: operations that restore arguments before a call.
    """

    def __init__(
        self,
        arguments: Sequence[Argument],
        inputs: Mapping[str, NDArray[Any]],
        memory: DeviceMemory,
        kernels: "Kernels",
        *,
        sharing: "DeviceBuffers | None" = None,
    ) -> None:
        if len(arguments) > MOST_BUFFERS:
            reason = f"the kernel takes {len(arguments)} arguments, but at most {MOST_BUFFERS} are supported"
            raise LaunchError(f"{reason}; pass several values in one array")
        self._arguments, self._memory, self._kernels = arguments, memory, kernels
        self._inputs: list[str] = list(inputs) if sharing is None else sharing._inputs
        shared: dict[str, GuardedBuffer] = {}
        if sharing is not None:
            shared = {each.name: sharing._buffers[each.name] for each in arguments if each.role == "input"}
        with cuda_errors():
            self._originals: dict[str, GuardedBuffer] = (
                {each.name: GuardedBuffer(each, memory) for each in arguments if each.role == "inout"}
                if sharing is None
                else sharing._originals
            )
            self._buffers: dict[str, GuardedBuffer] = {
                argument.name: shared.get(argument.name) or GuardedBuffer(argument, memory)
                for argument in arguments
                if argument.role != "scalar"
            }
            self.pointers = {name: buffer.pointer for name, buffer in self._buffers.items()}
            for name, values in inputs.items():
                self._source(name).write(values)
        self.restores = tuple(self._restore(buffer) for buffer in self._buffers.values() if buffer.argument.restored)
        self._sums: list[int] = self._sum(self._inputs) if sharing is None else sharing._sums
        self.poison()

    @property
    def bytes_held(self) -> int:
        return sum(buffer.size for buffer in self._buffers.values())

    def poison(self, byte: int = POISON) -> None:
        with cuda_errors():
            for buffer in self._buffers.values():
                buffer.guard()
                if buffer.argument.written:
                    buffer.fill(byte)

    def sibling(self) -> "DeviceBuffers":
        return DeviceBuffers(self._arguments, {}, self._memory, self._kernels, sharing=self)

    def siblings(self, count: int) -> list[Buffers]:
        return [self.sibling() for _ in range(count)]

    def place(self, placement: Placement) -> None:
        """Do nothing, because GPU kernels may rely on the alignment that CUDA guarantees for allocations."""

    def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        with cuda_errors():
            for name in self._inputs:
                self._source(name).write(inputs[name])
        self._sums = self._sum(self._inputs)

    def write_part(self, name: str, place: int | slice, value: Any) -> None:
        """Raise `NotImplementedError`, because inputs of GPU kernels are not changed during calls."""
        raise NotImplementedError

    def rewrite(self, source: Buffers) -> None:
        theirs = cast(DeviceBuffers, source)._buffers
        self._copy((buffer, theirs[name]) for name, buffer in self._buffers.items() if buffer.argument.written)

    def refill(self, source: Buffers) -> None:
        other = cast(DeviceBuffers, source)
        self._copy((self._source(name), other._source(name)) for name in self._inputs)
        self._sums = other._sums

    def same_outputs(self, others: Sequence[Buffers]) -> list[bool]:
        outputs = [name for name, buffer in self._buffers.items() if buffer.argument.judged]
        sets = [self, *(cast(DeviceBuffers, other) for other in others)]
        sums = iter(self._checksums(each._buffers[name] for each in sets for name in outputs))
        own, *theirs = [[next(sums) for _ in outputs] for _ in sets]
        return [each == own for each in theirs]

    def read(self, name: str) -> NDArray[Any]:
        with cuda_errors():
            return self._buffers[name].read()

    def distance(self, name: str, reference: NDArray[Any]) -> Distance:
        buffer = self._buffers[name]
        if buffer.argument.dtype in DISTANCES:
            with suppress(MemoryError):
                return self._kernels.distance(buffer, reference)
        return distance(self.read(name), reference, buffer.argument.dtype)

    def remember(self, name: str) -> Remembered:
        return self._checksums([self._buffers[name]])[0]

    def unchanged(self, name: str, remembered: Remembered) -> bool:
        return self.remember(name) == remembered

    def damage(self) -> str | None:
        with cuda_errors():
            for buffer in self._buffers.values():
                if overrun := buffer.overrun():
                    return overrun
        sums = self._sum(self._inputs)
        changed = (name for name, before, now in zip(self._inputs, self._sums, sums, strict=True) if now != before)
        return next((f"modifies its input `{name}`" for name in changed), None)

    def _source(self, name: str) -> GuardedBuffer:
        """Return the buffer with the values that an input has before a call."""
        return self._originals.get(name) or self._buffers[name]

    def _restore(self, buffer: GuardedBuffer) -> Restore:
        original = self._originals.get(buffer.argument.name)
        return Restore(
            pointer=buffer.pointer,
            size=buffer.size,
            original=None if original is None else original.pointer,
            pattern=b"" if original is not None else buffer.argument.pattern,
        )

    def _copy(self, pairs: Iterable[tuple[GuardedBuffer, GuardedBuffer]]) -> None:
        with cuda_errors():
            for to, source in pairs:
                self._memory.copy(to.pointer, source.pointer, to.size)

    def _sum(self, names: Sequence[str]) -> list[int]:
        """Return the checksum of the values that each input has before a call."""
        return self._checksums(self._source(name) for name in names)

    def _checksums(self, buffers: Iterable[GuardedBuffer]) -> list[int]:
        return self._kernels.checksums([(each.pointer, each.size) for each in buffers])
