"""Writes files that the user named; errors name the option and a remedy."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.errors import Conflict, EvoError, InvalidInput


@contextmanager
def writing_to(target: Path) -> Iterator[None]:
    """Context manager for code that writes files.

    Raises:
        InvalidInput: a folder is named where a file belongs.
        EvoError: the system refused to write.
    """
    try:
        yield
    except IsADirectoryError:
        raise InvalidInput("--to", f"{target} is a folder: name a file, e.g. {target / 'kernel.txt'}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise EvoError(
            f"--to: {target} cannot be written ({reason}): name another place, e.g. ./{target.name}"
        ) from None


def require_place(target: Path, *, force: bool) -> None:
    """Check at the start of a long run that a file can be written; existing content is not changed.

    Raises:
        Conflict: the file exists and may not be replaced.
        EvoError: the file cannot be written.
    """
    with writing_to(target):
        if not target.exists():
            target.open("xb").close()  # permissions alone do not show whether the system allows writing
            target.unlink()
        elif force:
            target.open("ab").close()
        else:
            raise Conflict(f"{target} already exists: replace it with --force, or name another file with --to")


def write_or_show(target: Path, text: str, *, force: bool) -> None:
    """Write the result of a long run; if that fails in spite of `require_place`, print it to standard output.

    Raises:
        EvoError: the file was not written.
    """
    try:
        with writing_to(target), target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except EvoError:
        sys.stdout.write(text)
        raise
