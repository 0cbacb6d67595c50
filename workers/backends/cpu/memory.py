"""Array arguments of kernels in host memory, with a guard band on both sides of every buffer."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from workers.backends import Buffers, Placement, Remembered
from workers.backends.cpu.segment import PAGE_BYTES, Region, Segment
from workers.backends.distance import POISON, Distance, distance
from workers.backends.scalars import scalar
from workers.build.kernel import Argument

GUARD_BYTES = PAGE_BYTES
"""Minimum size in bytes of each guard band with the placement ``page``."""

_MOST_SMALL_BYTES = 64 << 10
"""Maximum size in bytes of arrays that are compared as ``bytes`` objects. NumPy compares small arrays more slowly."""

_MOST_COPIED_BYTES = 64 << 20
"""Maximum size in bytes of an output that `remember` copies. Larger outputs are hashed, which takes ten times as long
but needs no memory.
"""


class GuardedArray:
    """An array with guard bands directly before and after it.

    Args:
        segment: segment that contains the array. If None, a new segment is created.
        region: range of the segment for the array. If None, the first range is used.
        filled: True if the range already contains the data and the guard bands.

    Attributes:
        offset: offset of the data in the segment.
    """

    def __init__(
        self,
        argument: Argument,
        segment: Segment | None = None,
        region: Region | None = None,
        *,
        filled: bool = False,
    ) -> None:
        self.argument = argument
        self.segment = segment or Segment([argument.bytes], writable=argument.written)
        self._region = region or self.segment.regions[0]
        self._whole = self.segment.bytes_of(self._region)
        self._settle(GUARD_BYTES)
        if not filled:
            self.guard()

    def place(self, placement: Placement, number: int = 0) -> None:
        """Move the array to another placement, and fill the guard bands. The data of the array is lost.

        Args:
            number: number of the array in its set. With the placement ``unaligned``, the number and `Placement.shift`
                determine the array's offset in its page. On average, a quarter of the arrays begin at the start of a
                page.
        """
        slack = self._whole.size - self.argument.bytes
        alignment = max(self.argument.alignment, self.argument.stored.itemsize)
        start = {"page": GUARD_BYTES, "first": 0, "last": slack}.get(placement.where)
        if start is None:  # placement ``unaligned``
            start = GUARD_BYTES
            if placement.shift >> (1 + 2 * number) & 3:  # others stay aligned: a kernel may compare alignments
                start += placement.shift * (2 * number + 1) * self.argument.stored.itemsize % GUARD_BYTES
        self._settle(min(start, slack) // alignment * alignment)
        self.guard()

    def guard(self) -> None:
        """Fill both guard bands."""
        for band in self._bands.values():
            band.fill(POISON)

    def overrun(self) -> str | None:
        """Return a description of the overwritten bytes in a guard band, or None if there are none."""
        for side, band in self._bands.items():
            hit = np.flatnonzero(band != POISON)
            if hit.size:
                distance = int(hit[0]) if side == "after" else band.size - int(hit[-1]) - 1
                return (
                    f"writes out of bounds: {hit.size} bytes of the guard band {side} `{self.argument.name}`, "
                    f"the nearest {distance} bytes from the buffer"
                )
        return None

    def _settle(self, start: int) -> None:
        end = start + self.argument.bytes
        self.offset = self._region.start + start
        self.bytes = self._whole[start:end]
        self.values: NDArray[Any] = self.bytes.view(self.argument.stored).reshape(self.argument.shape)
        self._bands = {"before": self._whole[:start], "after": self._whole[end:]}


Evict: TypeAlias = Callable[[NDArray[Any]], None]
"""Removes an array from all caches, or does nothing if the processor has no instruction for this."""


class HostBuffers:
    """A `workers.backends.Buffers` in host memory that is shared with kernel processes.

    Args:
        arrays: arrays for this set, by argument name. Missing arrays are made, each in a separate segment.
        sharing: set whose inputs this set also uses. If None, the inputs are copied.
        filled: True if `arrays` already contain the inputs, poison in the outputs, and the guard bands.
        evict: function that removes an array from all caches. `rewrite` calls it, because otherwise the outputs stay in
            the cache of this process's core, and a kernel that bypasses the caches is slow on them. If `sharing` is
            given, the function of that set is used instead.

    Attributes:
        arrays: arrays by argument name.
        originals: contents of in-place arguments before a call, by argument name. Kernels cannot write to these arrays.
        rewritten: number of times that this process wrote the outputs.
    """

    def __init__(
        self,
        arguments: Sequence[Argument],
        inputs: Mapping[str, NDArray[Any]],
        *,
        arrays: Mapping[str, GuardedArray] | None = None,
        sharing: "HostBuffers | None" = None,
        filled: bool = False,
        evict: Evict = lambda _: None,
    ) -> None:
        self.arguments, self._inputs, self.rewritten = arguments, inputs, 0
        self._evict: Evict = evict if sharing is None else sharing._evict
        given = arrays or {}
        shared: dict[str, GuardedArray] = {}
        if sharing is not None:
            shared = {each.name: sharing.arrays[each.name] for each in arguments if each.role == "input"}
        made = {**given, **shared}
        self.originals: Mapping[str, GuardedArray] = (
            _originals(arguments, given) if sharing is None else sharing.originals
        )
        self.arrays: dict[str, GuardedArray] = {
            argument.name: made.get(argument.name) or GuardedArray(argument)
            for argument in arguments
            if argument.role != "scalar"
        }
        if sharing is None and not filled:
            self.renew(inputs)
        self._written = [array for array in self.arrays.values() if array.argument.written]
        self._judged = [(name, array) for name, array in self.arrays.items() if array.argument.judged]
        self.call_arguments  # noqa: B018 - raises an error for a scalar that cannot be passed
        if not filled:
            self.poison()

    @property
    def call_arguments(self) -> list[Any]:
        """Arguments of a call from this process, as ctypes values in the order of the kernel's parameters."""
        return [self._call_argument(argument) for argument in self.arguments]

    @property
    def bytes_held(self) -> int:
        return sum(array.bytes.size for array in self.arrays.values())

    def poison(self, byte: int = POISON) -> None:
        self.rewritten += 1
        for array in self.arrays.values():
            array.guard()
            if array.argument.written:
                array.bytes.fill(byte)

    def restore(self) -> None:
        """Restore the contents that arguments must have before a call from this process.

        Kernel processes restore their arguments themselves.
        """
        for name, array in self.arrays.items():
            if name in self.originals:
                np.copyto(array.bytes, self.originals[name].bytes)
            elif array.argument.restored:
                array.values.reshape(-1)[...] = np.frombuffer(array.argument.pattern, array.argument.stored, 1)

    def place(self, placement: Placement) -> None:
        for number, array in enumerate(self.arrays.values()):
            array.place(placement, number)
        self.renew(self._inputs)
        self.poison()

    def sibling(self) -> Buffers:
        return self.siblings(1)[0]

    def siblings(self, count: int) -> list[Buffers]:
        written = [argument for argument in self.arguments if argument.written]
        segments = _segments(written, count, guard_pages=False)
        return _sets(self.arguments, self._inputs, segments, count, sharing=self)

    def rewrite(self, source: Buffers) -> None:
        self.rewritten += 1
        for own, other in zip(self._written, cast(HostBuffers, source)._written, strict=True):
            np.copyto(own.bytes, other.bytes)
            self._evict(own.bytes)

    def refill(self, source: Buffers) -> None:
        self.renew(cast(HostBuffers, source)._inputs)

    def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        self._inputs = inputs
        for name, values in inputs.items():
            self.arrays[name].values[...] = values
            if name in self.originals:  # both are written, because the array may be restored only after the next call
                self.originals[name].values[...] = values

    def write_part(self, name: str, place: int | slice, value: Any) -> None:
        self.originals.get(name, self.arrays[name]).values.reshape(-1)[place] = value

    def same_outputs(self, others: Sequence[Buffers]) -> list[bool]:
        held = [cast(HostBuffers, other).arrays for other in others]
        return [all(_equal(array.bytes, theirs[name].bytes) for name, array in self._judged) for theirs in held]

    def read(self, name: str) -> NDArray[Any]:
        return self.arrays[name].values.copy()

    def distance(self, name: str, reference: NDArray[Any]) -> Distance:
        array = self.arrays[name]
        return distance(array.values, reference, array.argument.dtype)

    def remember(self, name: str) -> Remembered:
        present = self.arrays[name].bytes
        return present.copy() if present.size <= _MOST_COPIED_BYTES else _hash(present)

    def unchanged(self, name: str, remembered: Remembered) -> bool:
        present = self.arrays[name].bytes
        if isinstance(remembered, int):
            return _hash(present) == remembered
        return _equal(present, remembered)

    def remember_outputs(self) -> dict[str, Remembered]:
        return {name: self.remember(name) for name, _ in self._judged}

    def damage(self) -> str | None:
        for array in self.arrays.values():
            if overrun := array.overrun():
                return overrun
        for name, original in self._inputs.items():
            if not _equal(self.originals.get(name, self.arrays[name]).bytes, _bytes(original)):
                return f"modifies its input `{name}`"
        return None

    def _call_argument(self, argument: Argument) -> object:
        if argument.role != "scalar":
            return ctypes.c_void_p(self.arrays[argument.name].bytes.ctypes.data)
        return scalar(argument)


def host_sets(
    arguments: Sequence[Argument],
    inputs: Mapping[str, NDArray[Any]],
    count: int,
    *,
    evict: Evict = lambda _: None,
) -> list[Buffers]:
    """Return `count` buffer sets with copies of the same inputs. At most two segments contain all sets.

    Args:
        evict: function that removes an array from all caches; the sets call it after they rewrite their outputs.

    Raises:
        MemoryError: the memory cannot be allocated.
        LaunchError: a scalar cannot be passed.
    """
    originals = [_original(each) for each in arguments if each.role == "inout"]
    placed = [*(each for each in arguments if each.role != "scalar"), *originals]
    return [*_sets(arguments, inputs, _segments(placed, count, guard_pages=count == 1), count, evict=evict)]


def _segments(
    arguments: Sequence[Argument], count: int, *, guard_pages: bool
) -> list[tuple[Segment, Sequence[Argument]]]:
    """Return segments for `count` sets of arrays, each with the arguments whose arrays it contains.

    One segment is for the arrays that kernels only read. A second segment is for all other arrays. In a segment, the
    arrays of a set are consecutive.

    Args:
        guard_pages: True to make the page between the regions of two arrays inaccessible to kernel processes.
    """
    made = list[tuple[Segment, Sequence[Argument]]]()
    for writable in (False, True):
        chosen = [argument for argument in arguments if argument.written == writable]
        if not chosen or not count:
            continue
        segment = Segment([argument.bytes for _ in range(count) for argument in chosen], writable=writable)
        if not guard_pages:
            segment.guard_pages.clear()
        made.append((segment, chosen))
    return made


def _sets(
    arguments: Sequence[Argument],
    inputs: Mapping[str, NDArray[Any]],
    segments: Sequence[tuple[Segment, Sequence[Argument]]],
    count: int,
    *,
    sharing: HostBuffers | None = None,
    evict: Evict = lambda _: None,
) -> list[Buffers]:
    """Return `count` buffer sets in the given segments.

    Only the first set is filled array by array. The system copies the memory of this set to the other sets.

    Args:
        segments: result of `_segments`.
        sharing: set whose inputs all returned sets also use. If None, the inputs are copied.
        evict: function that removes an array from all caches; the sets call it after they rewrite their outputs.
    """
    made = list[Buffers]()
    for number in range(count):
        arrays = {
            argument.name: GuardedArray(argument, segment, region, filled=number > 0)
            for segment, chosen in segments
            for argument, region in zip(chosen, segment.regions[number * len(chosen) :], strict=False)
        }
        made.append(HostBuffers(arguments, inputs, arrays=arrays, sharing=sharing, filled=number > 0, evict=evict))
        if number == 0 and count > 1:
            for segment, chosen in segments:
                segment.repeat(segment.regions[len(chosen)].start)
    return made


def _originals(arguments: Sequence[Argument], sources: Mapping[str, GuardedArray]) -> dict[str, GuardedArray]:
    """Return an array for the original contents of each in-place argument, by argument name.

    Arguments in `sources` get the array from there. Other arguments get new arrays.
    """
    wanted = {each.name: _original(each) for each in arguments if each.role == "inout"}
    return {name: sources.get(each.name) or GuardedArray(each) for name, each in wanted.items()}


def _original(argument: Argument) -> Argument:
    return replace(argument, name=f"{argument.name} (original)", role="input")


def _equal(left: NDArray[np.uint8], right: NDArray[np.uint8]) -> bool:
    if left.size <= _MOST_SMALL_BYTES:
        return left.tobytes() == right.tobytes()
    words = left.size // 8 * 8
    same = (left[:words].view(np.uint64) == right[:words].view(np.uint64)).all()
    return bool(same) and left[words:].tobytes() == right[words:].tobytes()


def _hash(array: NDArray[np.uint8]) -> int:
    return int.from_bytes(blake2b(array.data, digest_size=8).digest())


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
