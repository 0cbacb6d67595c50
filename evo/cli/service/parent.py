"""Ends a child process with the command that started it, however that command ends."""

import os
import signal
import threading
import time

CHECK_S = 0.5
GRACE_S = 15.0
"""Seconds that a child may take to end after its parent has ended."""


def follow_parent(parent_pid: int | None) -> None:
    """End this process soon after its parent `parent_pid` ends; None: do nothing.

    On every POSIX system a process whose parent dies gets another parent at once. This reveals the end of a parent that
    was killed, too.
    """
    if parent_pid is not None:
        threading.Thread(target=_watch, args=(parent_pid,), name="parent", daemon=True).start()


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
