"""Addresses of shared memory in a kernel process, and the arguments of calls on this memory."""

import os
import struct
from collections.abc import Iterator, Sequence

from workers.backends import LaunchError
from workers.backends.cpu.memory import GuardedArray, HostBuffers
from workers.backends.cpu.process.kernel_state import Fence
from workers.backends.cpu.process.messages import APRON_BYTES, FLOATS, STACKED, WRITE, Table
from workers.backends.cpu.segment import PAGE_BYTES, Segment
from workers.backends.scalars import scalar
from workers.build.kernel import Argument


class AddressSpace:
    """Segments that a kernel process has mapped, with their addresses in the process."""

    def __init__(self) -> None:
        self._bases: dict[int, tuple[Segment, int]] = {}
        self._known: dict[int, GuardedArray] = {}

    @property
    def mapped_bytes(self) -> int:
        """Size of all mapped segments in bytes, including the inaccessible memory around them."""
        return sum(segment.size + 2 * APRON_BYTES for segment, _ in self._bases.values())

    def add(self, segment: Segment, base: int) -> None:
        """Record that a segment is mapped at the address `base`."""
        self._bases[segment.number] = (segment, base)

    def missing(self, sets: Sequence[HostBuffers]) -> list[tuple[str, Segment]]:
        """Return the segments of buffer sets that are not mapped yet, each with the name of an argument in it."""
        named = [each for one in sets for each in (*one.arrays.items(), *one.originals.items())]
        self._known |= {id(held): held for _, held in named}
        wanted = {held.segment.number: (name, held.segment) for name, held in named}
        return [each for number, each in wanted.items() if number not in self._bases]

    def table(self, sets: Sequence[HostBuffers], registers: int) -> Table:
        """Encode the kernel arguments of one call on each buffer set.

        Args:
            registers: number of integer arguments that are passed in registers on this processor.

        Raises:
            LaunchError: there are more arguments than a kernel process can pass.
        """
        arguments = sets[0].arguments if sets else ()
        real = [each.role == "scalar" and each.dtype.startswith("float") for each in arguments]
        words = [self._words(buffers, registers) for buffers in sets] + [self._writes(buffers) for buffers in sets]
        return Table(
            sets=len(sets),
            width=len(real) - sum(real),
            floats=sum(real),
            spans=tuple(self._spans(buffers) for buffers in sets),
            words=b"".join(words),
            restored=sum(each.restored for each in arguments),
            filled=sum(each.filled for each in arguments),
        )

    def near(self, address: int) -> tuple[GuardedArray, int] | None:
        """Return the array that is nearest to an address, and the address's offset from the start of this array.

        Return None if the address is not in or next to a mapped segment.
        """
        near: list[tuple[int, GuardedArray, int]] = []
        for mapped in self._known.values():
            segment, base = self._bases[mapped.segment.number]
            if not base - APRON_BYTES <= address < base + segment.size + APRON_BYTES:
                continue
            offset = address - base - mapped.offset
            outside = max(-offset, offset - mapped.bytes.size + 1, 0)
            near.append((outside, mapped, offset))
        if not near:
            return None
        _, mapped, offset = min(near, key=lambda each: each[0])
        return mapped, offset

    def fences(self) -> Iterator[Fence]:
        """Yield the addresses of each mapped segment, and of the inaccessible memory in and around it."""
        for segment, base in self._bases.values():
            inside = range(base, base + segment.size)
            around = range(base - APRON_BYTES, base), range(inside.stop, inside.stop + APRON_BYTES)
            guard_pages = (range(base + page, base + page + PAGE_BYTES) for page in segment.guard_pages)
            yield Fence(inside=inside, closed=(*around, *guard_pages))

    def _address(self, array: GuardedArray) -> int:
        return self._bases[array.segment.number][1] + array.offset

    def _spans(self, buffers: HostBuffers) -> tuple[tuple[int, int], ...]:
        held = (*buffers.arrays.values(), *buffers.originals.values())
        return tuple((self._address(each), each.bytes.size) for each in held)

    def _words(self, buffers: HostBuffers, registers: int) -> bytes:
        words: list[bytes] = []
        real: list[bytes] = []
        for argument in buffers.arguments:
            if argument.role != "scalar":
                words.append(struct.pack("=Q", self._address(buffers.arrays[argument.name])))
                continue
            value = bytes(scalar(argument)).ljust(4, b"\0")
            # a caller may leave any bits in the upper half of a register
            (real if argument.dtype.startswith("float") else words).append(value + _unused(8 - len(value)))
        most = registers + STACKED
        if len(words) > most or len(real) > FLOATS:
            raise LaunchError(
                f"the kernel takes {len(words)} pointers and integers, and {len(real)} floating-point numbers; the "
                f"maximum is {most} and {FLOATS}; pass several values in one array"
            )
        words += [_unused(8) for _ in range(most - len(words))]
        real += [_unused(8) for _ in range(FLOATS - len(real))]
        return b"".join([*words, *real])

    def _writes(self, buffers: HostBuffers) -> bytes:
        """Return the encoded memory writes that precede a call on a buffer set. See `Table.words` for their order."""
        arrays = [each for each in buffers.arguments if each.role != "scalar"]
        chosen = [*(each for each in arrays if each.restored), *(each for each in arrays if each.filled)]
        return b"".join(self._write(each, buffers) for each in chosen)

    def _write(self, argument: Argument, buffers: HostBuffers) -> bytes:
        to = buffers.arrays[argument.name]
        original = buffers.originals.get(argument.name)
        source, pattern = (0, argument.pattern) if original is None else (self._address(original), b"")
        return WRITE.pack(self._address(to), source, to.bytes.size, pattern)


def _unused(size: int) -> bytes:
    """Return the content of a part of a register that no argument uses: zeros or random bytes, at random."""
    return os.urandom(size) if os.urandom(1)[0] % 2 else bytes(size)
