"""A child that must not outlive the command that started it, however that command ended."""

import os
import signal
import threading
import time

CHECK_S = 0.5
GRACE_S = 15.0
"""Seconds that a child may take to end after its parent has ended."""


def follow_parent(parent_pid: int | None) -> None:
    """End this process soon after its parent `parent_pid` did; None: it stands on its own.

    A process whose parent dies is given another one at once, which shows on every POSIX system, and also when the
    parent was killed and could say nothing.
    """
    if parent_pid is not None:
        threading.Thread(target=_watch, args=(parent_pid,), name="parent", daemon=True).start()


def _watch(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)
