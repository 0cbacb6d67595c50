"""Files a person asked for by name: where the system refuses one, the option is named, and the way out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evo.errors import EvoError, InvalidInput


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    """Around all that writes below it.

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
