"""Finds and kills the processes that a candidate started.

Processes that left the process group of the candidate's runner are found as well.
"""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MARK = "KERNEL_EVO_RUNNER"
"""Environment variable of a runner. All descendants inherit it, even in another session or with another parent."""

_excused: set[int] = set()

_TASKS = Path("/proc/self/task")
_ROUNDS = 10
"""Maximum rounds of killing. Processes may fork before they are killed; the limits of the system apply after
that.
"""


def children() -> frozenset[int]:
    """Return the child processes of this process, including zombies."""
    try:
        lists = [(task / "children").read_text() for task in _TASKS.iterdir()]
    except OSError:  # not Linux, or a kernel built without these lists
        return frozenset(child.pid for child in psutil.Process().children())
    return frozenset(int(pid) for line in lists for pid in line.split())


def _children_at_once() -> frozenset[int]:
    """Return the child processes, like `children`. If there are none, this takes only one system call.

    `children` may examine every process of the machine, which takes longer.
    """
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    except AttributeError:  # macOS lacks waitid
        pass
    return children()


@contextmanager
def excused() -> Iterator[None]:
    """Record the processes that trusted code starts in the block. `of_trusted_code` returns these processes.

    Only processes of this user are recorded, because kernels run as other users if the machine allows it.
    """
    before = _children_at_once()
    try:
        yield
    finally:
        _excused.update(pid for pid in _children_at_once() - before if _is_own(pid))


def of_trusted_code() -> frozenset[int]:
    """Return the ids of processes that trusted code, such as a reference.py, has started in this process."""
    return frozenset(_excused)


def _is_own(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    return not Path("/proc/self").exists()


def started_by(pid: int) -> list[int]:
    """Return the ids of the child processes of a process, including zombies. Works on Linux only."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def end_these(pids: list[int]) -> None:
    """Kill processes, given by their ids, and their descendants."""
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in (*below(pid), process):
                _kill(each)


def below(pid: int) -> list[psutil.Process]:
    """Return all descendants of a process. The result is empty if it has ended."""
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    return found


def end(mark: str, known: list[psutil.Process]) -> None:
    """Kill these processes, all processes whose environment contains the mark, and their new children."""
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
            if mark in process.environ().values():  # kernel processes have it in a variable of another name
                yield process


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.kill()
