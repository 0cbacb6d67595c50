"""Stores the id and the token of a worker, so that a restarted worker finds its earlier leases."""

import fcntl
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evo.errors import EvoError
from evo.messages.access import IssuedToken


class IdentityError(EvoError, OSError):
    """Raised if the worker's data folder cannot be written."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A worker id that is reserved for this process until the file descriptor `descriptor` is closed."""

    worker_id: str
    descriptor: int


def claim_identity(folder: Path) -> Identity:
    """Reserve the first worker id in `folder` that no running worker uses. If there is none, create an id.

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
            f"the worker's folder {folder} cannot be used ({error.strerror}); choose another with --data, or set --id"
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


JOIN_PREFIX = "kej_"


class NotKept(EvoError, OSError):
    """Raised if the worker token cannot be stored. This is tested before the join token is exchanged."""


def own_token(given: str | None, kept: Path, join: Callable[[], IssuedToken]) -> str | None:
    """Return the worker token; None if the settings contain no token.

    At the first start with a join token, the join token is exchanged for a worker token.

    Args:
        given: worker token or join token from the settings, or None. Later starts may pass the same join token.
        kept: file in which the worker token is stored.
        join: function that exchanges the join token for a worker token.

    Raises:
        NotKept: the file cannot be written.
        AccessDenied: the service rejects the join token.
        Conflict: the join token cannot be exchanged.
        ServiceUnreachable: the service cannot be reached.
    """
    if given is None or not given.startswith(JOIN_PREFIX):
        return given
    if (token := _read(kept, given)) is not None:
        return token
    trial = kept.with_name(f"{kept.name}.trial")
    _write(trial, given, "")  # raises an error, before the join token is used, if the file cannot be written
    trial.unlink()
    token = join().secret
    _write(kept, given, token)
    return token


def _read(kept: Path, token: str) -> str | None:
    """Return the stored worker token if it was issued for this join token, else None."""
    try:
        document = json.loads(kept.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document["token"] or None if document.get("join") == _name(token) else None


def _write(kept: Path, join_token: str, token: str) -> None:
    draft = kept.with_name(f".{kept.name}.{os.getpid()}")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"join": _name(join_token), "token": token}, file)
        draft.replace(kept)
    except OSError as error:
        raise NotKept(f"{kept} cannot be written ({error.strerror}); choose another folder with --data") from error


def _name(join_token: str) -> str:
    """Return the public part of a join token."""
    return join_token.split("_")[1] if join_token.count("_") > 1 else ""
