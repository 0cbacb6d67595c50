"""Files a person asked for by name: where the system refuses one, the option is named, and the way out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.errors import Conflict, EvoError, InvalidInput


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    """Context manager for code that writes files.

    Raises:
        InvalidInput: a folder is named where a file belongs.
        EvoError: the system refused something there.
    """
    try:
        yield
    except IsADirectoryError:
        raise InvalidInput("--to", f"{place} is a folder: name a file, e.g. {place / 'kernel.txt'}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise EvoError(f"--to: {place} cannot be written ({reason}): name another place, e.g. ./{place.name}") from None


def require_place(place: Path, *, force: bool) -> None:
    """Refuse a file at the beginning of a long run, not at its end; what is there stays as it is.

    Raises:
        Conflict: it is there already and may not be replaced.
        EvoError: it could not be written.
    """
    with writing_to(place):
        if not place.exists():
            place.open("xb").close()  # only the system knows what it allows: rights alone do not tell
            place.unlink()
        elif force:
            place.open("ab").close()
        else:
            raise Conflict(f"{place} is there already: replace it with --force, or name another file with --to")


def write_or_show(place: Path, text: str, *, force: bool) -> None:
    """Write what a long run came to; where that fails in spite of `require_place`, standard output has it.

    Raises:
        EvoError: it was not written.
    """
    try:
        with writing_to(place), place.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except EvoError:
        sys.stdout.write(text)
        raise
