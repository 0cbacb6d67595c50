"""Writes a unit's source to a compiler's folder, so that messages show the lines that they name."""

import re
from pathlib import Path, PurePosixPath

_LINE = re.compile(r'^#line 1 "([^"\n]+)"\n', re.MULTILINE)
"""Separates the macros from a family's source, see `templates.render`."""


def write_source(source: str, folder: Path, suffix: str) -> str:
    """Write a source and return its file's name.

    A compiler that prints a line of a source reads it from the file that ``#line`` names. That file is written as well,
    and the source, in which lines have other numbers, gets another name.
    """
    name, named = f"kernel{suffix}", _LINE.search(source)
    own = "" if named is None else PurePosixPath(named[1]).name
    if named is not None and own == named[1]:
        (folder / own).write_text(source[named.end() :], encoding="utf-8")
        name = f"kernel_with_macros{suffix}" if own == name else name
    (folder / name).write_text(source, encoding="utf-8")
    return name
