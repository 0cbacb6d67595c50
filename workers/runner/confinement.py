"""Restrictions that a runner imposes on itself before it loads a candidate."""

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import BinaryIO

import psutil

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_FILE_BYTES = 1 << 30
"""Maximum size in bytes of a file that a runner writes. A larger memory limit replaces this size, because shared
buffers are files."""


@dataclass(frozen=True, kw_only=True)
class Channel:
    """Pipes to the slot. Their descriptors differ from those of stdin and stdout, which a candidate may use."""

    requests: BinaryIO
    replies: BinaryIO


def take_channel() -> Channel:
    """Move the slot's pipes from stdin and stdout to new file descriptors, and return them.

    Afterwards, output to stdout is written to stderr, and stdin is empty.
    """
    requests, replies = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return Channel(requests=os.fdopen(requests, "rb"), replies=os.fdopen(replies, "wb"))


def die_with(parent: int) -> None:
    """Make this process end when its parent ends.

    On Linux, the system kills the process. On other systems, a thread watches the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # the parent ended before `prctl` took effect
        os._exit(1)


def adopt() -> None:
    """Let this process become the parent of processes that a candidate detaches, so that the runner finds them.

    Do nothing outside Linux.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def limit(memory_bytes: int, *, address_space: bool) -> None:
    """Forbid core files, limit the size of files, and limit the memory that this process may allocate from now on.

    Args:
        memory_bytes: memory limit in bytes. The limit is never more than half of the free memory.
        address_space: True to limit the memory, by limiting the address space. False if the driver of the device
            reserves far more addresses than memory, so that such a limit is impossible.
    """
    limit_core()
    _lower("RLIMIT_FSIZE", max(_FILE_BYTES, memory_bytes))
    if address_space:
        affordable = min(memory_bytes, psutil.virtual_memory().available // 2)
        _lower("RLIMIT_AS", psutil.Process().memory_info().vms + affordable)


def limit_core() -> None:
    """Forbid core files of this process."""
    _lower("RLIMIT_CORE", 0)


def _lower(name: str, value: int) -> None:
    """Lower the soft and the hard limit of a resource, if the system supports it. macOS refuses memory limits."""
    try:
        import resource
    except ImportError:
        return
    if (which := getattr(resource, name, None)) is None:
        return
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(which, (value, value))
    except (ValueError, OSError) as error:
        print(f"{name} cannot be limited on this system: {error}", file=sys.stderr)  # noqa: T201


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
