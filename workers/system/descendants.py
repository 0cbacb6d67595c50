"""Finds and kills the processes that a candidate started, even if they left the process group of the runner."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MARK = "KERNEL_EVO_RUNNER"
"""Environment variable that marks a runner. All descendants inherit it, even if their session or parent changes."""

_excused: set[int] = set()

_TASKS = Path("/proc/self/task")
_ROUNDS = 10
"""Maximum number of rounds in which processes are killed, because processes may fork faster than they are killed."""


def children() -> frozenset[int]:
    """Return the ids of the child processes of this process, including zombies."""
    try:
        lists = [(task / "children").read_text() for task in _TASKS.iterdir()]
    except OSError:  # not Linux, or a Linux kernel without these files
        return frozenset(child.pid for child in psutil.Process().children())
    return frozenset(int(pid) for line in lists for pid in line.split())


def _children_at_once() -> frozenset[int]:
    """Return the same ids as `children`, but faster if there are no child processes."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    except AttributeError:  # macOS lacks waitid
        pass
    return children()


@contextmanager
def excused() -> Iterator[None]:
    """Record the processes that trusted code starts inside the ``with`` block, so that kernels are not blamed for them.

    Only processes of this user are recorded, because kernels run as other users if the machine permits it.
    """
    before = _children_at_once()
    try:
        yield
    finally:
        _excused.update(pid for pid in _children_at_once() - before if _is_own(pid))


def of_trusted_code() -> frozenset[int]:
    """Return the ids of the processes that trusted code, such as reference.py, has started (see `excused`)."""
    return frozenset(_excused)


def _is_own(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    return not Path("/proc/self").exists()


def descends_from_here(pid: int) -> bool:
    """Return True if a running process is a descendant of this process."""
    with contextlib.suppress(psutil.Error):
        return any(parent.pid == os.getpid() for parent in psutil.Process(pid).parents())
    return False


def started_by(pid: int) -> list[int]:
    """Return the ids of a process's child processes, including zombies; empty on systems other than Linux."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def end_these(pids: list[int]) -> None:
    """Kill the processes with these ids, and their descendants."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (*below(pid), process):
                _kill(each)


def below(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process, or an empty list if the process has ended."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return found


def end(mark: str, known: list[psutil.Process]) -> None:
    """Kill the processes in `known`, all processes whose environment contains `mark`, and their new children."""
    for process in known:
        _kill(process)
    for _ in range(_ROUNDS):
        marked = list(_marked(mark))
        if not marked:
            return
        for process in marked:
            _kill(process)


def _marked(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if mark in process.environ().values():  # kernel processes have the mark in a different variable
                yield process


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()
