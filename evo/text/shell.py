"""Composes commands that can be pasted into a shell."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from evo.text.visible import one_line


def command(*words: object) -> str:
    """Return a ``kernel-evo`` command with these arguments, quoted for a shell."""
    return joined(["kernel-evo", *map(str, words)])


def joined(words: Iterable[str]) -> str:
    """Return a command that consists of these words, each quoted for a shell."""
    return " ".join(map(quoted, words))


def quoted(word: str) -> str:
    """Return a word quoted for a shell.

    Words with characters that a terminal cannot show, such as a line break or bytes that are not UTF-8, are written as
    ``$'a\\377.db'``, which bash, zsh and ksh understand.
    """
    if one_line(word) == word:
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word.encode('utf-8', 'surrogateescape')))}'"


def _escaped(byte: int) -> str:
    """Return a byte as text within ``$'…'``; escapes are octal because hexadecimal escapes have no fixed length."""
    return chr(byte) if 0x20 <= byte < 0x7F and byte not in b"'\\" else f"\\{byte:03o}"


def with_home(path: str | Path) -> Path:
    """Return a path with ``~`` and ``~USER`` at its start replaced by the home folder.

    As in a shell, the path is unchanged if there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)
