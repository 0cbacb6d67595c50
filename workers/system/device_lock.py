"""Device lock: only one process measures on a device at a time. The system releases the lock when the process ends."""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from evo.errors import EvoError
from workers.system.log import log

_RETRY_S = 0.01
"""Seconds between attempts to lock. The order in which waiting processes get the lock does not depend on this
number."""

BUSY_S = 1.0
"""Seconds of waiting for the device after which the holder of the lock is reported, e.g. in the log."""


class GaveUp(EvoError, RuntimeError):
    """Raised if a measurement ends early because it is no longer needed, e.g. while it waits for the device."""


def log_busy(holder: int | None) -> None:
    """Log that another process (with the id `holder`, or None if unknown) has locked the device."""
    log().info("another process holds the device", holder=holder)


@contextmanager
def exclusive(
    device_uuid: str,
    *,
    unwanted: Callable[[], bool] = lambda: False,
    on_busy: Callable[[int | None], None] = log_busy,
) -> Iterator[float]:
    """Lock a device during the ``with`` block, and yield the seconds of waiting for other processes.

    A second lock ensures that a waiting process gets the device next, even if the current holder immediately requests
    the device again. If no lock file can be created, the ``with`` block runs without a lock.

    Args:
        unwanted: function that returns True when waiting should end, because the measurement is no longer needed.
        on_busy: function that is called once after `BUSY_S` seconds of waiting, with the id of the process that has
            locked the device, or None if unknown.

    Raises:
        GaveUp: `unwanted` returned True.
    """
    with _opened(f"{device_uuid}.queue") as queue, _opened(device_uuid) as device:
        if queue is None or device is None:
            yield 0.0
            return
        begun = time.monotonic()
        reported = False
        for descriptor in (queue, device):
            while not _is_locked(descriptor):
                if unwanted():
                    raise GaveUp("the measurement is no longer needed")
                if not reported and time.monotonic() - begun >= BUSY_S:
                    reported = True
                    on_busy(_holder(device))
                time.sleep(_RETRY_S)
        fcntl.flock(queue, fcntl.LOCK_UN)
        _sign(device, str(os.getpid()))
        try:
            yield time.monotonic() - begun
        finally:
            _sign(device, "")


@contextmanager
def exclusive_if_free(device_uuid: str) -> Iterator[bool]:
    """Lock a device during the ``with`` block if no process has locked it or waits for it.

    Yield True if the device is locked, and False if it is in use or no lock file can be opened.
    """
    with _opened(f"{device_uuid}.queue") as queue, _opened(device_uuid) as device:
        if queue is None or device is None or not _is_locked(queue):
            yield False
            return
        free = _is_locked(device)
        fcntl.flock(queue, fcntl.LOCK_UN)
        if not free:
            yield False
            return
        _sign(device, str(os.getpid()))
        try:
            yield True
        finally:
            _sign(device, "")


@contextmanager
def _opened(name: str) -> Iterator[int | None]:
    """Open a lock file that all users share, and yield its descriptor, or None if it cannot be opened.

    Users can lock the files of other users, but cannot write to them.
    """
    safe = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in name)
    descriptor = None
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT):
        with suppress(OSError):
            descriptor = os.open(Path(tempfile.gettempdir()) / f"kernel-evo-{safe}.lock", flags, 0o644)
            break
    try:
        yield descriptor
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int, text: str) -> None:
    """Write `text` (the id of this process, or an empty string) to the lock file, unless another user owns the file."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _holder(descriptor: int) -> int | None:
    """Return the process id in a lock file; None if the process has ended or the id cannot be read."""
    try:
        pid = int(os.pread(descriptor, 20, 0))
    except (OSError, ValueError):
        return None
    return pid if psutil.pid_exists(pid) else None
