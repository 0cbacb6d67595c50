"""Reads from ``/proc`` the state of a process that a kernel must not change."""

import contextlib
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields

import numpy as np

from workers.backends.cpu.segment import PAGE_BYTES

_READ_BYTES = 1 << 16
_HANDLED = ("SigBlk", "SigIgn", "SigCgt")
_STATUS = re.compile(
    r"Umask|SigPnd|ShdPnd|Cap\w+|NoNewPrivs|Seccomp|Spec\w+|THP_enabled|Mems_allowed_list|VmLck|VmPin|x86_\w+"
)
"""Fields of ``/proc/PID/status`` that no call may change."""

_FILES = ("personality", "timerslack_ns", "oom_score_adj", "coredump_filter")
"""Files in ``/proc/PID`` with attributes that no call may change."""

_HELD, _OF_FILE = np.uint64(0b11 << 62), np.uint64(1 << 61)
"""Bits in ``/proc/PID/pagemap``: `_HELD` for a page that is in memory or swapped out, `_OF_FILE` for a page of a file
(https://docs.kernel.org/admin-guide/mm/pagemap.html).
"""

_OF_THREADS = 0b11 << 31
"""Bit mask of the signals 32 and 33, which the C library handles as soon as a process creates a thread."""


@dataclass(frozen=True, kw_only=True)
class Fence:
    """Addresses of a segment of buffers, and of the inaccessible memory in and around it.

    Attributes:
        inside: addresses at which the segment's file must stay mapped.
        closed: address ranges that must stay inaccessible.
    """

    inside: range
    closed: tuple[range, ...]


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """State of one process. An attribute is empty if the system does not report it.

    Attributes:
        signals: bit masks of blocked, ignored and caught signals.
        cores: cores on which the process may run.
        priorities: niceness, real-time priority and scheduling policy of the threads.
        limits: resource limits, except the limit of the address space.
        descriptors: files, pipes and sockets to which the open descriptors refer, except the copy of the library.
        timers: POSIX timers.
        mappings: memory mappings that no kernel needs: shared memory that the runner did not provide, memory that is
            both writable and executable, and executable memory without a file.
        attributes: other attributes of the whole process, such as its file mode mask, locked memory, personality, timer
            slack, working directory, and whether it may use huge pages.
        closed: address ranges that cannot be accessed, sorted. Adjacent ranges are joined.
        foreign: start addresses of accessible memory that does not belong to a file of the runner.
    """

    signals: tuple[int, ...] = ()
    cores: str = ""
    priorities: str = ""
    limits: str = ""
    descriptors: tuple[str, ...] = ()
    timers: str = ""
    mappings: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    closed: tuple[range, ...] = field(default=(), repr=False)
    foreign: tuple[int, ...] = field(default=(), repr=False)

    def changed(self, before: "KernelState") -> str | None:
        """Return a description of the first difference from an earlier state, or None if there is none.

        The attributes `closed` and `foreign` are not compared. `opened` checks them.
        """
        for each in fields(self):
            if each.name in _WORDS and getattr(self, each.name) != getattr(before, each.name):
                return _WORDS[each.name]
        return None

    def opened(self, fences: Iterable[Fence]) -> str | None:
        """Describe a change of the memory mappings in or around buffers.

        Return None if there is no change, or if the mappings are unknown.
        """
        if not self.closed:
            return None
        starts = [each.start for each in self.closed]
        for fence in fences:
            for pages in fence.closed:
                index = bisect_right(starts, pages.start) - 1
                if index < 0 or pages.stop > self.closed[index].stop:
                    return "makes the memory next to its buffers accessible"
            index = bisect_right(self.foreign, fence.inside.start)
            if index < len(self.foreign) and self.foreign[index] < fence.inside.stop:
                return "maps other memory at the addresses of its buffers"
        return None


_WORDS = {
    "signals": "changes which signals it blocks, ignores or handles, and does not restore it",
    "cores": "changes its allowed cores",
    "priorities": "changes its priority",
    "limits": "changes the limits of its process",
    "descriptors": "leaves files open, or closes files that it did not open",
    "timers": "leaves a timer running",
    "mappings": "maps shared memory, or makes memory both writable and executable",
    "attributes": "changes attributes of its process, such as locked memory, file mode mask, huge pages or timer slack",
}


def state_of(pid: int) -> KernelState:
    """Return the current state of a process, or an empty state if the process has ended."""
    folder = f"/proc/{pid}"
    status = dict(line.partition(":\t")[::2] for line in _text(f"{folder}/status").splitlines())
    if not status:
        return KernelState()
    mappings, closed, foreign = _mappings(folder)
    return KernelState(
        signals=tuple(int(status.get(name, "0"), 16) & ~_OF_THREADS for name in _HANDLED),
        cores=status.get("Cpus_allowed_list", ""),
        priorities=_priorities(f"{folder}/task"),
        limits=_limits(folder),
        descriptors=_descriptors(f"{folder}/fd"),
        timers=_text(f"{folder}/timers"),
        mappings=mappings,
        attributes=_attributes(folder, status),
        closed=closed,
        foreign=foreign,
    )


def writes_code(pid: int) -> bool:
    """Return True if a process has changed its machine code. Return False if not, or if the system does not report it.

    If a process writes to a page of a file, the system gives the process a private copy of the page. The copy stays
    visible even if the process restores the contents.
    """
    try:
        pages = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return any(_has_own_page(pages, span) for span in _code(pid))
    except OSError:
        return False
    finally:
        os.close(pages)


def _code(pid: int) -> Iterator[range]:
    """Yield the page numbers of each executable file mapping, as a range."""
    for line in _text(f"/proc/{pid}/maps").splitlines():
        span, access, _, _, inode, *_ = line.split(maxsplit=5)
        if access[2] == "x" and inode != "0":
            start, stop = (int(each, 16) for each in span.split("-"))
            yield range(start // PAGE_BYTES, stop // PAGE_BYTES)


def _has_own_page(pages: int, span: range) -> bool:
    """Return True if a page in `span` is in memory or swapped out, and does not belong to a file."""
    words = np.frombuffer(os.pread(pages, 8 * len(span), 8 * span.start), np.uint64)
    return bool(np.any((words & _HELD != 0) & (words & _OF_FILE == 0)))


def _priorities(tasks: str) -> str:
    found = set()
    for task in _names(tasks):
        state = _text(f"{tasks}/{task}/stat").rpartition(")")[2].split()
        found.add(":".join((*state[16:17], *state[37:39])))
    return ",".join(sorted(found))


def _limits(folder: str) -> str:
    """Return all resource limits except the limit on memory, which grows with the buffers that the process maps."""
    return "\n".join(
        line for line in _text(f"{folder}/limits").splitlines() if not line.startswith("Max address space")
    )


def _descriptors(folder: str) -> tuple[str, ...]:
    found = []
    for name in sorted(_names(folder)):
        with contextlib.suppress(OSError):
            found.append(f"{name} {os.readlink(f'{folder}/{name}')}")  # noqa: PTH115 - as in `_names`
    return tuple(each for each in found if "/memfd:kernel" not in each)


def _attributes(folder: str, status: Mapping[str, str]) -> tuple[str, ...]:
    attributes = [f"{name} {value}" for name, value in status.items() if _STATUS.fullmatch(name)]
    attributes += [f"{name} {_text(f'{folder}/{name}')}" for name in _FILES]
    with contextlib.suppress(OSError):
        attributes.append(os.readlink(f"{folder}/cwd"))  # noqa: PTH115 - as in `_names`
    return tuple(attributes)


def _mappings(folder: str) -> tuple[tuple[str, ...], tuple[range, ...], tuple[int, ...]]:
    """Return the attributes `mappings`, `closed` and `foreign` of `KernelState`."""
    found, closed, foreign = set(), list[range](), list[int]()
    for line in _text(f"{folder}/maps").splitlines():
        span, access, _, _, inode, *path = line.split(maxsplit=5)
        where = path[0].strip() if path else ""
        ours = where.startswith("/memfd:memory")
        if (access[3] == "s" and not ours) or ("w" in access and "x" in access) or (access[2] == "x" and inode == "0"):
            found.add(f"{access} {where}")
        start, stop = (int(each, 16) for each in span.split("-"))
        if access.startswith("---"):
            joined = closed.pop().start if closed and closed[-1].stop == start else start
            closed.append(range(joined, stop))
        elif not ours:
            foreign.append(start)
    return tuple(sorted(found)), tuple(closed), tuple(foreign)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - creating a Path object takes as long as the system call
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return b"".join(iter(lambda: os.read(file, _READ_BYTES), b"")).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(file)
