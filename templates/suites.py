"""Finds built-in suites by name, and users' suites by the path of a TOML file."""

from pathlib import Path

from evo.errors import InvalidInput, NotFound
from evo.search.suite import Suite, suite_from
from evo.text.document import read_toml
from evo.text.encoding import not_utf8, utf8_text
from evo.text.shell import with_home
from evo.text.suggestion import unknown

FOLDER = Path(__file__).parent
SUFFIX = ".toml"
MAX_BYTES = 4 << 20


def names() -> list[str]:
    """Return the names of the built-in suites."""
    return sorted(path.stem for path in FOLDER.glob(f"*{SUFFIX}"))


def find(name_or_path: str) -> Suite:
    """Return a suite by its name, or by the path of its file, e.g. ``./mine.toml``.

    Raises:
        NotFound: the suite does not exist.
        InvalidInput: the file cannot be read, or a field is invalid.
    """
    if name_or_path in names():
        return _read(FOLDER / f"{name_or_path}{SUFFIX}", name_or_path)
    path = with_home(name_or_path)
    if not (path.suffix == SUFFIX or "/" in name_or_path):
        raise NotFound(f"{unknown(name_or_path, names(), 'suites')}; the path of a suite file ends in {SUFFIX}")
    return _read(path, path.stem)


def _read(path: Path, name: str) -> Suite:
    try:
        content = path.read_bytes()
        if len(content) > MAX_BYTES:
            raise InvalidInput("--suite", f"{path} is larger than {MAX_BYTES >> 20} MiB; a suite file must be smaller")
        document = read_toml(utf8_text(content))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(
            f"file {path} does not exist; pass the path of a suite file, or one of {', '.join(names())}"
        ) from None
    except OSError as error:
        remedy = f"pass the path of a suite file, or one of {', '.join(names())}"
        raise InvalidInput("--suite", f"{path} cannot be read ({error.strerror}); {remedy}") from None
    except InvalidInput:
        raise
    except UnicodeDecodeError as error:
        raise InvalidInput("--suite", f"{path} {not_utf8(content, error, str(path))}") from None
    except ValueError as error:
        raise InvalidInput("--suite", f"{path} cannot be read as TOML: {error}") from None
    try:
        return suite_from(document, name, str(path) if path.parent != FOLDER else name)
    except InvalidInput as error:
        raise InvalidInput(error.field, f"{error.reason} (in {path})") from None
