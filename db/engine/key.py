"""Key file of a service, next to its SQLite file or, with PostgreSQL, next to its artefact folder.

A request with the key has every role, because a user who can read the key file can also read the service's files.
"""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

from db.engine.unavailable import StoreUnavailable
from evo.text.shell import with_home

KEY_BYTES = 32


def local_key(database: Path) -> str | None:
    """Return the key of a database. Return None if the key file is missing or this user may not read it."""
    for path in (_path(database), _path(with_home(database).absolute().resolve())):  # the path may be a symbolic link
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if key := path.read_text(encoding="ascii").strip():
                return key
    return None


def ensure_key(database: Path) -> str:
    """Return the key of a database. If there is no key file yet, create one that only its owner can read.

    Raises:
        StoreUnavailable: the key file next to the database cannot be written or read.
    """
    path = _path(database)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} is not writable ({error.strerror}); make its folder writable, or use another --db"
        ) from error
    if (key := local_key(database)) is None:
        raise StoreUnavailable(f"{path} is empty or not readable; remove it, so that a new key is created")
    return key


def _make(path: Path) -> None:
    """Create the key file atomically. If several processes start at the same time, the first process's key is kept."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", encoding="ascii") as draft:
        draft.write(secrets.token_hex(KEY_BYTES))
        draft.flush()
        with contextlib.suppress(FileExistsError):
            os.link(draft.name, path)


def _path(database: Path) -> Path:
    database = with_home(database).absolute()
    return database.with_name(f"{database.name}.key")
