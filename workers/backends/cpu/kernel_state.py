"""Process state that a kernel must not change, as the system reports it before and after."""

import contextlib
import os
from dataclasses import dataclass, fields

_READ_BYTES = 1 << 16
_HANDLED = ("SigBlk", "SigIgn", "SigCgt")
_OF_THREADS = 0b11 << 31
"""Signals 32 and 33, which the C library handles from the first thread on."""


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """State of one process; empty if the system does not report it.

    Attributes:
        signals: bit masks of blocked, ignored and caught signals.
        cores: cores it may run on.
        priorities: niceness, real-time priority and scheduling policy of its threads.
        limits: resource limits.
        descriptors: targets of its open descriptors.
        timers: its POSIX timers.
        mappings: memory that no kernel needs: its own shared memory, and memory that is both writable and executable.
    """

    signals: tuple[int, ...] = ()
    cores: str = ""
    priorities: str = ""
    limits: str = ""
    descriptors: tuple[str, ...] = ()
    timers: str = ""
    mappings: tuple[str, ...] = ()

    def changed(self, before: "KernelState") -> str | None:
        """Describe the differences from an earlier state; None if there are none."""
        for each in fields(self):
            if getattr(self, each.name) != getattr(before, each.name):
                return _WORDS[each.name]
        return None


_WORDS = {
    "signals": "changes which signals it blocks, ignores or handles, and does not restore it",
    "cores": "changes its allowed cores",
    "priorities": "changes its priority",
    "limits": "changes the limits of its process",
    "descriptors": "leaves files open, or closes those of others",
    "timers": "leaves a timer running",
    "mappings": "maps memory that it shares, or writes code",
}


def state_of(pid: int) -> KernelState:
    """Return the present state; empty for a process that has ended."""
    folder = f"/proc/{pid}"
    status = dict(line.partition(":\t")[::2] for line in _text(f"{folder}/status").splitlines())
    if not status:
        return KernelState()
    return KernelState(
        signals=tuple(int(status.get(name, "0"), 16) & ~_OF_THREADS for name in _HANDLED),
        cores=status.get("Cpus_allowed_list", ""),
        priorities=_priorities(f"{folder}/task"),
        limits=_limits(folder),
        descriptors=_descriptors(f"{folder}/fd"),
        timers=_text(f"{folder}/timers"),
        mappings=_mappings(folder),
    )


def _priorities(tasks: str) -> str:
    found = set()
    for task in _names(tasks):
        state = _text(f"{tasks}/{task}/stat").rpartition(")")[2].split()
        found.add(":".join((*state[16:17], *state[37:39])))
    return ",".join(sorted(found))


def _limits(folder: str) -> str:
    """Return all limits except that of memory, which grows with the buffers given to the process."""
    return "\n".join(
        line for line in _text(f"{folder}/limits").splitlines() if not line.startswith("Max address space")
    )


def _descriptors(folder: str) -> tuple[str, ...]:
    found = []
    for name in sorted(_names(folder)):
        with contextlib.suppress(OSError):
            found.append(f"{name} {os.readlink(f'{folder}/{name}')}")  # noqa: PTH115 - as in `_names`
    return tuple(each for each in found if "/memfd:kernel" not in each)


def _mappings(folder: str) -> tuple[str, ...]:
    found = set()
    for line in _text(f"{folder}/maps").splitlines():
        _, access, _, _, inode, *path = line.split(maxsplit=5)
        where = path[0].strip() if path else ""
        ours = where.startswith("/memfd:memory")
        if (access[3] == "s" and not ours) or ("w" in access and "x" in access) or (access[2] == "x" and inode == "0"):
            found.add(f"{access} {where}")
    return tuple(sorted(found))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - objects for paths take as long as the system's answer
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
