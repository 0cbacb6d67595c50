"""Temporary folders that end with their process. Those of killed processes are removed by the next process."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.errors import EvoError

_PREFIX = "kernel-evo-scratch-"
_MARK = ".held"


class ScratchError(EvoError, OSError):
    """No temporary folder can be written on this machine."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Create a temporary folder that is removed at the end of the block.

    Raises:
        ScratchError: there is no place for temporary files.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _marked(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ScratchError(
            f"no temporary folder can be made ({reason}): free some space, or set TMPDIR to a writable folder"
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep_scratch() -> None:
    """Remove the folders of processes that were killed; folders of running processes are locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = _hold(folder / _MARK)
        except OSError:  # not marked yet, or another user's
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _marked(folder: Path) -> int:
    """Mark a folder as that of a running process; return the descriptor of the locked mark.

    The mark is locked before it has its name: a sweep between the two would remove the folder.
    """
    unnamed = folder / f"{_MARK}-unlocked"
    descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(folder / _MARK)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _hold(mark: Path) -> int | None:
    """Lock a mark until its descriptor is closed; None if another process holds it."""
    descriptor = os.open(mark, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
