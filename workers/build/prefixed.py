"""Sources with macros in front: how they are written for a compiler, and which of the macros headers replace."""

import re
from collections.abc import Collection, Iterator
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


_MARKER = re.compile(r'#(?: |line )(\d+) "((?:[^"\\]|\\.)*)"((?: \d)*)')
_CHANGE = re.compile(r"#(define|undef) (\w+)(.*)")
_PUSHED = re.compile(r'#pragma push_macro\("(\w+)"\)')


def replaced_macros(preprocessed: str, names: Collection[str], *, own: str) -> Iterator[str]:
    """Yield a warning, in the form of gcc's, for each macro whose value from the source a header replaces or removes.

    A header of the family may remove a macro after its last use. A macro that is pushed is restored later.

    Args:
        names: macros of the source.
        own: name of the source's file, in which they are defined first.
    """
    wanted = {*names}.difference(_PUSHED.findall(preprocessed))
    values, changed = dict[str, str](), dict[str, tuple[str, str]]()
    file, line, system = "", 0, False
    for text in preprocessed.split("\n"):
        if (marker := _MARKER.match(text)) is not None:
            file, line, system = marker[2], int(marker[1]), " 3" in marker[3]
            continue
        if (change := _CHANGE.match(text)) is not None and change[2] in wanted:
            what, name, value = change.groups()
            if file == own:
                values[name] = value
            elif name in values and values[name] != value and (what == "define" or system):
                changed.setdefault(name, (f"{file}:{line}", "undefined"))
                changed[name] = (f"{file}:{line}", "redefined") if what == "define" else changed[name]
        line += 1
    for name, (place, how) in changed.items():
        yield f'{place}: warning: "{name}" {how}'
