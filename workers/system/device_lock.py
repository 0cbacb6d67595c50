"""One measuring process at a time for each device, whoever started it: a lock the system frees with its holder."""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import structlog

from evo.errors import EvoError

_RETRY_S = 0.01
"""Cheap beside a measurement; whose turn is next does not depend on it."""

BUSY_S = 1.0
"""After so long in vain it is told who holds the device."""

_LOG = structlog.get_logger()


class GaveUp(EvoError, RuntimeError):
    """Waiting for the device was given up, because nobody wants the measurement any more."""


def log_busy(holder: int | None) -> None:
    """Say that the device is held; the holder is a process id, or None where that is not known."""
    _LOG.info("device.busy", holder=holder)


@contextmanager
def exclusive(
    device_uuid: str,
    *,
    unwanted: Callable[[], bool] = lambda: False,
    on_busy: Callable[[int | None], None] = log_busy,
) -> Iterator[float]:
    """Hold the device; waits as long as another process does. Yields the seconds waited.

    Waiting is done in a queue with a lock of its own: its head is next, however soon the holder asks again.
    Where no lock file can be made (no temporary folder), nothing is held: measuring goes on unprotected.

    Args:
        unwanted: ends the wait when it turns true.
        on_busy: called once, after `BUSY_S` of waiting, with the process that holds the device, if known.

    Raises:
        GaveUp: nobody wants it any more.
    """
    with _opened(f"{device_uuid}.queue") as queue, _opened(device_uuid) as device:
        if queue is None or device is None:
            yield 0.0
            return
        begun = time.monotonic()
        told = False
        for descriptor in (queue, device):
            while not _taken(descriptor):
                if unwanted():
                    raise GaveUp("the measurement is not wanted any more")
                if not told and time.monotonic() - begun >= BUSY_S:
                    told = True
                    on_busy(_holder(device))
                time.sleep(_RETRY_S)
        fcntl.flock(queue, fcntl.LOCK_UN)
        _sign(device, str(os.getpid()))
        try:
            yield time.monotonic() - begun
        finally:
            _sign(device, "")


@contextmanager
def _opened(name: str) -> Iterator[int | None]:
    """A lock file, shared between users: each can lock what another made, though not write it."""
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


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(descriptor: int, text: str) -> None:
    """Leave word of who holds it; in vain where another user made the file."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _holder(descriptor: int) -> int | None:
    """Who signed last, unless that process is gone."""
    try:
        pid = int(os.pread(descriptor, 20, 0))
    except (OSError, ValueError):
        return None
    return pid if psutil.pid_exists(pid) else None
