"""Handles sources that begin with macros of kernel-evo: writes them to files, and finds macros that headers change."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

_LINE = re.compile(r'^#line 1 "([^"\n]+)"\n', re.MULTILINE)
"""Line that separates the macros from a family's source. See `templates.render`."""


def write_source(source: str, folder: Path, suffix: str) -> str:
    """Write a source to a file in `folder`, and return the name of the file.

    If the source begins with macros, and its ``#line`` names a file without a folder, the family's source without the
    macros is also written, to this file. Compilers print lines of this file in their messages.
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
    """Yield a warning, in the format of gcc, for each macro of the source that a header redefines or undefines.

    There is no warning if ``push_macro`` saves the macro, or if a header outside the system folders undefines the
    macro, perhaps after its last use.

    Args:
        preprocessed: preprocessed source with its macro definitions (``-E -dD``).
        names: macros of the source.
        own: file name of the source.
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


_DEFINED = re.compile(r"^#define (\w+) (.+)$", re.MULTILINE)
_UNDEFINED = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", re.MULTILINE)
_CHANGED = re.compile(r"^[ \t]*#[ \t]*(?:define|undef)[ \t]+(\w+)", re.MULTILINE)
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b[^\n]*", re.MULTILINE)
_WHOLE = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)[uUlL]*")
_REPORT = re.compile(r"kernel-evo: (\w+) (undefined|redefined)")
_LONGEST_HEADER = 1 << 20


def removals(source: str, headers: Iterable[Path]) -> dict[str, tuple[Path, int]]:
    """Return the macros that a header may undefine, each with the header and the line of its ``#undef``.

    Only macros that kernel-evo defines before the source are considered, and only if the source itself does not change
    them. The compiler may skip the ``#undef``, for example because of an ``#if``. `removal_test` detects this.
    """
    named = _LINE.search(source)
    if named is None or _INCLUDE.search(source, named.end()) is None:
        return {}
    names = dict(_DEFINED.findall(source[: named.start()])).keys() - {*_CHANGED.findall(source, named.end())}
    found: dict[str, tuple[Path, int]] = {}
    for header in headers:
        try:
            text = "" if header.stat().st_size > _LONGEST_HEADER else header.read_text("utf-8", "replace")
        except OSError:
            continue
        for each in _UNDEFINED.finditer(text):
            if each[1] in names:
                found.setdefault(each[1], (header, text.count("\n", 0, each.start(1)) + 1))
    return found


def removal_test(source: str, names: Iterable[str]) -> str:
    """Return a source that makes the compiler report the macros that headers change.

    The source consists of `source` up to the last ``#include``, and an ``#error`` for each macro that is undefined or
    has a different number at this point.
    """
    values = dict(_DEFINED.findall(source))
    parts = [source[: max(each.end() for each in _INCLUDE.finditer(source))]]
    for name in names:
        parts.append(f"#ifndef {name}\n#error kernel-evo: {name} undefined")
        if _WHOLE.fullmatch(values[name].strip()):
            parts.append(f"#elif ({name}) != ({values[name]})\n#error kernel-evo: {name} redefined")
        parts.append("#endif")
    return "\n".join(parts) + "\n"


def removal_warnings(log: str, places: Mapping[str, tuple[Path, int]], *, own: Collection[Path]) -> Iterator[str]:
    """Yield a warning, in the format of gcc, for each macro that a header redefines or undefines.

    Args:
        log: log of the compilation of `removal_test`.
        places: result of `removals`.
        own: folders of the family, whose headers may undefine a macro without a warning, perhaps after its last use.
    """
    for name, how in dict.fromkeys(_REPORT.findall(log)):
        header, line = places[name]
        if how == "redefined" or not any(header.is_relative_to(folder) for folder in own):
            yield f'{header}:{line}: warning: "{name}" {how}'
