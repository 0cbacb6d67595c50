"""Temporary folders. If a process is killed, a later process deletes its folders."""

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
    """Raised if no temporary folder can be created on this machine."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Create a temporary folder that is deleted at the end of the ``with`` block.

    Raises:
        ScratchError: no temporary folder can be created.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _marked(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ScratchError(
            f"no temporary folder can be created ({reason}); free disk space, or set TMPDIR to a writable folder"
        ) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def sweep_scratch() -> None:
    """Delete the temporary folders of killed processes, i.e. those that no process has locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            lock = _hold(folder / _MARK)
        except OSError:  # there is no lock file yet, or another user owns the folder
            continue
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _marked(folder: Path) -> int:
    """Create a locked file that marks the folder as in use, and return the descriptor of the file.

    The file is locked before it gets its final name, so that `sweep_scratch` never finds it unlocked.
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
    """Lock the file that marks a folder as in use, and return its descriptor.

    Return None if another process has locked it. Closing the descriptor releases the lock.
    """
    descriptor = os.open(mark, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
