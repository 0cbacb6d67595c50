"""Worker identity: an id that survives restarts, so that the service finds the worker's old leases at once."""

import fcntl
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from evo.errors import EvoError


class IdentityError(EvoError, OSError):
    """The worker's data folder cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A worker id, reserved for this process while `descriptor` is open."""

    worker_id: str
    descriptor: int


def claim_identity(folder: Path) -> Identity:
    """Claim the first identity in `folder` that no running worker holds; create one if all are held.

    Raises:
        IdentityError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        number = 1
        while (identity := _claim(folder / f"worker-{number}.id")) is None:
            number += 1
    except OSError as error:
        raise IdentityError(
            f"the worker's folder {folder} cannot be used ({error.strerror}): name another with --data, or give an --id"
        ) from None
    return identity


def _claim(path: Path) -> Identity | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    kept = os.read(descriptor, 100).decode(errors="replace").strip()
    if not kept:
        kept = f"worker-{uuid.uuid4().hex[:12]}"
        os.write(descriptor, kept.encode())
    return Identity(worker_id=kept, descriptor=descriptor)
