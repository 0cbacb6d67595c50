"""Process state that a kernel must not change, as the system reports it before and after."""

import contextlib
from dataclasses import dataclass, fields
from pathlib import Path

_PROC = Path("/proc")
_HANDLED = ("SigBlk", "SigIgn", "SigCgt")
_OF_THREADS = 0b11 << 31
"""Signals 32 and 33, which the C library handles from the first thread on."""


@dataclass(frozen=True, kw_only=True)
class KernelState:
    """State of one process; empty if the system does not report it.

    Attributes:
        signals: those blocked, ignored and caught: a bit for each.
        cores: it may run on.
        niceness: of its threads.
        limits: on its resources.
        descriptors: what its open files are.
        timers: POSIX timers.
        mappings: of what no kernel needs: shared memory of its own, and memory that is written and executed.
    """

    signals: tuple[int, ...] = ()
    cores: str = ""
    niceness: str = ""
    limits: str = ""
    descriptors: tuple[str, ...] = ()
    timers: str = ""
    mappings: tuple[str, ...] = ()

    def changed(self, before: "KernelState") -> str | None:
        """Return what differs from an earlier state, in words; None if nothing does."""
        for each in fields(self):
            if getattr(self, each.name) != getattr(before, each.name):
                return _WORDS[each.name]
        return None


_WORDS = {
    "signals": "changes which signals it blocks, ignores or handles, and leaves it so",
    "cores": "changes the cores that it may run on",
    "niceness": "changes its priority",
    "limits": "changes the limits of its process",
    "descriptors": "leaves files open, or closes those of others",
    "timers": "leaves a timer running",
    "mappings": "maps memory that it shares, or writes code",
}


def state_of(pid: int) -> KernelState:
    """Return the present state; empty for a process that has ended."""
    folder = _PROC / str(pid)
    try:
        status = dict(line.partition(":\t")[::2] for line in (folder / "status").read_text().splitlines())
    except OSError:
        return KernelState()
    return KernelState(
        signals=tuple(int(status.get(name, "0"), 16) & ~_OF_THREADS for name in _HANDLED),
        cores=status.get("Cpus_allowed_list", ""),
        niceness=_niceness(folder),
        limits=_limits(folder),
        descriptors=_descriptors(folder / "fd"),
        timers=_text(folder / "timers"),
        mappings=_mappings(folder),
    )


def _niceness(folder: Path) -> str:
    found = set()
    with contextlib.suppress(OSError):
        for task in (folder / "task").iterdir():
            found.add(_text(task / "stat").rpartition(")")[2].split()[16:17][0])
    return ",".join(sorted(found))


def _limits(folder: Path) -> str:
    """All but that of memory, which grows with the buffers that the process is given."""
    return "\n".join(line for line in _text(folder / "limits").splitlines() if not line.startswith("Max address space"))


def _descriptors(folder: Path) -> tuple[str, ...]:
    found = []
    with contextlib.suppress(OSError):
        for link in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                found.append(f"{link.name} {link.readlink()}")
    return tuple(each for each in found if "/memfd:kernel" not in each)


def _mappings(folder: Path) -> tuple[str, ...]:
    found = set()
    for line in _text(folder / "maps").splitlines():
        _, access, _, _, inode, *path = line.split(maxsplit=5)
        where = path[0].strip() if path else ""
        ours = where.startswith("/memfd:memory")
        if (access[3] == "s" and not ours) or ("w" in access and "x" in access) or (access[2] == "x" and inode == "0"):
            found.add(f"{access} {where}")
    return tuple(sorted(found))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
