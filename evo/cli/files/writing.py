"""Writes files and folders that the user named. A failed write leaves no file, and the error names the option
and a remedy.
"""

import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path

from evo.errors import Conflict, EvoError, InvalidInput
from evo.family.scope import WORD, WORD_RULE
from evo.text.shell import command, quoted


def check_place(folder: Path, option: str) -> str:
    """Check the folder of a new family, and return its name, which becomes the family's name.

    Args:
        option: option or argument of the command line that named the folder.

    Raises:
        InvalidInput: the folder's name is not a valid family name.
        Conflict: the folder exists and is not empty.
    """
    place = Path(os.path.normpath(Path.cwd() / folder))
    if WORD.fullmatch(place.name) is None:
        reason = f"{place.name!r:.110} is not a valid family name ({WORD_RULE})"
        raise InvalidInput(option, f"{reason}; write e.g. {_named(option, folder, place)}")
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        remedy = f"choose another folder, e.g. {_named(option, folder, place)}, or remove it first"
        raise Conflict(f"{option}: {folder} already exists; {remedy}")
    return place.name


def _named(option: str, folder: Path, place: Path) -> str:
    """Return an option with the path of an unused folder next to `folder`, as an example for an error.

    The name of the unused folder is derived from the name of `place`.
    """
    name = re.sub(r"[^A-Za-z0-9_.+-]+", "_", place.name[:80]).strip("_.+-") or "kernel"
    parent = Path() if folder == Path() or folder.name in ("", "..") else folder.parent
    names = chain((name, f"my_{name}"), (f"{name}_{number}" for number in count(2)))
    free = shown_path(next(parent / each for each in names if not (parent / each).exists()))
    return command("new", free) if option == "FOLDER" else f"{option} {quoted(free)}"


def shown_path(path: Path) -> str:
    """Return a path as an argument that a command cannot confuse with a name or an option, e.g. ``./sdpa``."""
    return str(path) if path.is_absolute() or path.parts[:1] == ("..",) else f"./{path}"


@contextmanager
def writing_to(target: Path, option: str = "--to") -> Iterator[None]:
    """Context manager that converts system errors of writing a file or folder to errors with a remedy.

    Args:
        option: option or argument of the command line that named the target.

    Raises:
        InvalidInput: the target is a folder, but a file must be written.
        EvoError: the system refused to write the target.
    """
    try:
        yield
    except IsADirectoryError:
        raise InvalidInput(option, f"{target} is a folder; choose a file, e.g. {target / 'kernel.txt'}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise EvoError(
            f"{option}: {target} cannot be written ({reason}); choose another path, e.g. ./{target.name}"
        ) from None


def write_file(target: Path, content: str | bytes, *, force: bool = True) -> None:
    """Write a file completely. If writing fails or is interrupted, `target` keeps its earlier content.

    A device or pipe is written directly.

    Args:
        force: False to refuse an existing file.

    Raises:
        OSError: the file cannot be written.
    """
    if target.exists() and not target.is_file():  # a device or pipe, which cannot be replaced
        with target.open("wb") as file:
            file.write(_bytes(content))
        return
    place = target.resolve()
    draft = _draft(place)
    try:
        draft.write_bytes(_bytes(content))
        if force:
            with suppress(FileNotFoundError):
                shutil.copymode(place, draft)
        else:
            place.open("xb").close()
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)


def write_folder(folder: Path, contents: Mapping[str, str | bytes]) -> list[Path]:
    """Write files into a new or empty folder, and return their paths.

    If writing fails, the folder is left unchanged.

    Args:
        contents: content of each file, by its path in the folder.

    Raises:
        OSError: a file cannot be written.
    """
    new = not folder.exists()
    if new:
        folder.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(folder if new else folder / "files")
    draft.mkdir()
    try:
        for name, content in contents.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_bytes(content))
        if new:
            draft.replace(folder)
        else:
            for path in sorted(draft.iterdir()):
                path.replace(folder / path.name)
            draft.rmdir()
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return [folder / name for name in contents]


def _draft(target: Path) -> Path:
    """Return an unused hidden path next to the target.

    Callers write a file or folder completely to this path before they move it to the target.
    """
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else content.encode("utf-8", "surrogateescape")


def require_place(target: Path, *, force: bool) -> None:
    """Check at the start of a long run that a file can be written. Existing content is not changed.

    Raises:
        Conflict: the file exists, and `force` is False.
        EvoError: the file cannot be written.
    """
    with writing_to(target):
        if not target.exists():
            target.open("xb").close()  # permissions alone do not show whether the system allows writing
            target.unlink()
        elif force:
            target.open("ab").close()
        else:
            raise Conflict(f"{target} already exists: replace it with --force, or choose another file with --to")


def write_or_show(target: Path, text: str, *, force: bool) -> None:
    """Write the result of a long run to a file. If this fails although `require_place` succeeded, print the result to
    standard output.

    Args:
        force: False to refuse an existing file.

    Raises:
        EvoError: the file was not written.
    """
    try:
        with writing_to(target):
            write_file(target, text, force=force)
    except EvoError:
        sys.stdout.write(text)
        raise
