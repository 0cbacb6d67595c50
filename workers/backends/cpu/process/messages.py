"""Messages between a runner and a kernel process, encoded as `kernel_process.c` expects."""

import struct
from dataclasses import dataclass

from workers.backends import CallMode

LOAD, MAP, TABLE, RUN, POPULATE, FINISH = range(1, 7)
OWN_THREAD, EXAMINE, PERTURB, BEHIND, TOGETHER, GUARDED = 1, 2, 4, 8, 16, 32
"""Flags of a `RUN` request: call on a new thread, report the process state and the heap, fill allocated memory, restore
arguments late, call from two threads, check the callee-saved registers.
"""

WRITABLE, PACED = 1, 2
"""Flags of a `MAP` request: the process may write to the segment; the segment is the page of a `SharedPace`."""

DONE, FAILED, FAULT = 0, -1, -2
"""Values of the status in a reply."""

MOST_TEXT = 1 << 16
MOST_ORDERS = 1 << 14
"""Maximum number of set indices in a `RUN` request."""

STACKED, FLOATS = 24, 8
"""Maximum number of a kernel's arguments on the stack, and of its floating-point arguments."""

APRON_BYTES = 1 << 20
"""Size in bytes of the inaccessible memory on each side of a segment."""

REPLY = struct.Struct("=q6QQ")
"""Format of a reply: status, six values, and the length of the text that follows."""

WRITE = struct.Struct("=QQQ8s")
"""Format of a memory write before a call: destination, source (0 if a pattern is written), size in bytes, and
pattern."""

_HEADER = struct.Struct("=IIQQQQ")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Arguments of calls on buffer sets, encoded for the kernel process.

    Attributes:
        sets: number of buffer sets.
        width: number of pointers and integers per call.
        floats: number of floating-point numbers per call.
        spans: for each set, the address and the size in bytes of each array.
        words: first the arguments of the call on each set, then the memory writes (`WRITE`) before the call on each
            set. In each set, the writes that restore arguments precede the writes that fill arguments.
        restored: number of arguments that are restored before a call.
        filled: number of arguments that the call fills. The time of filling counts as part of the call.
    """

    sets: int
    width: int
    floats: int
    spans: tuple[tuple[tuple[int, int], ...], ...]
    words: bytes
    restored: int = 0
    filled: int = 0

    def request(self) -> bytes:
        """Encode this table as a request to the kernel process."""
        widths, writes = self.width << 32 | self.floats, self.restored << 32 | self.filled
        return header(TABLE, len(self.words), self.sets, 0, widths, writes) + self.words


def header(kind: int, payload_bytes: int, *values: int) -> bytes:
    """Return the header of a request with `values` (at most four integers; missing ones are 0).

    The payload follows the header.
    """
    return _HEADER.pack(kind, payload_bytes, *values, *(0,) * (4 - len(values)))


def flags_of(mode: CallMode) -> int:
    """Return the flags of a `RUN` request for a call mode."""
    return EXAMINE | OWN_THREAD * mode.own_thread | PERTURB * mode.perturb
