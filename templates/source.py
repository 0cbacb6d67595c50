"""Analyses how a plain source uses its macros, without compiling it.

The analysis is a simple preprocessor. It removes comments, inserts included files of the family, and evaluates only
conditions on a single name. If the result is uncertain, a macro counts as used.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal

from evo.family import Implementation

_WORD = re.compile(r"[A-Za-z_]\w*")
_COMMENTS_AND_TEXTS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|\bR"(?P<end>[^()\\\s]{0,16})\((?:.*?\)(?P=end)"|.*\Z)|"(?:\\.|[^"\\\n])*+"?|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n]){1,16}'""",
    re.DOTALL,
)
_OF_PRAGMA = re.compile(r"\b_Pragma\s*\(\s*\Z")
DIRECTIVE = re.compile(r"\s*(?:#|%:)\s*(\w+)(.*)", re.DOTALL)
INCLUDED = re.compile(r"""\s*(?:"([^"]+)"|<([^>]+)>)""")
_TESTED = re.compile(r"defined\s*+\(?+\s*+(\w+)(?:\s*+\))?+")
_IF_DEFINED = re.compile(r"\s*+(?P<no>!?)\s*+defined\s*+\(?+\s*+(?P<name>\w+)\s*+\)?+\s*+")
_NEAR = 100
"""Number of characters before a string that are searched for ``#include``. Without this limit, the search takes
quadratic time."""

_HEADER_FLAGS = ("-include", "--include", "--pre-include", "-imacros")


@dataclass(frozen=True, kw_only=True)
class Line:
    """A logical line of a source or header, without comments. `place` is its position as ``file:line``."""

    text: str
    place: str


@dataclass(kw_only=True)
class MacroUse:
    """Use of one macro in a source and its headers.

    Attributes:
        state: ``used``, ``redefined`` (before its first use), ``tested`` (only by ``#ifdef`` or ``#ifndef``), or
            ``unused``.
        place: position of the directive that redefines the macro, as ``file:line``; empty if there is none.
        text: the directive that redefines the macro; empty if there is none.
    """

    state: Literal["used", "redefined", "unused", "tested"] = "unused"
    place: str = ""
    text: str = ""


@dataclass(kw_only=True)
class _Scan:
    """State of the preprocessor while it reads lines.

    `conditions` has one entry per open ``#if``, ``#ifdef`` or ``#ifndef``. The entry is the name of a macro if the
    condition tests that the macro is not defined. The entry is empty for a condition that is always true: the include
    guard of a header, or a test that one of the macros is defined. It is None for all other conditions.
    """

    uses: dict[str, MacroUse]
    conditions: list[str | None] = field(default_factory=list)

    def take(self, line: Line) -> None:
        directive = DIRECTIVE.fullmatch(line.text)
        if directive is None:
            self._use(line.text)
            return
        kind, rest = directive[1], directive[2]
        if kind in ("if", "ifdef", "ifndef"):
            self._open(kind, rest)
        elif kind == "endif":
            del self.conditions[-1:]
        elif kind in ("elif", "else", "elifdef", "elifndef"):
            self.conditions[-1:] = [None]
            self._test(kind, rest)
        elif kind in ("define", "undef"):
            self._define(kind, rest, line)
        else:
            self._use(rest)

    def _open(self, kind: str, rest: str) -> None:
        tested = _IF_DEFINED.fullmatch(rest if kind == "if" else f"{'!' if kind == 'ifndef' else ''}defined {rest}")
        name = None if tested is None else tested["name"]
        if tested is not None and not tested["no"]:
            name = "" if name in self.uses else None
        self.conditions.append(name)
        self._test(kind, rest)

    def _test(self, kind: str, rest: str) -> None:
        tested = _WORD.findall(rest) if kind.endswith("def") else _TESTED.findall(rest)
        for name in tested:
            if name in self.uses and self.uses[name].state == "unused":
                self.uses[name].state = "tested"
        if not kind.endswith("def"):
            self._use(_TESTED.sub(" ", rest))

    def _define(self, kind: str, rest: str, line: Line) -> None:
        match = _WORD.match(rest.strip())
        if match is None:
            return
        name, body = match[0], rest.strip()[match.end() :]
        if name in self.conditions:
            if name not in self.uses:  # the include guard of a header
                self.conditions[self.conditions.index(name)] = ""
        elif name in self.uses and self.uses[name].state in ("unused", "tested"):
            use = self.uses[name]
            use.place, use.text = line.place, f"#{kind} {name}"
            certain = all(condition == "" for condition in self.conditions)
            use.state = "redefined" if certain else "used"
        if kind == "define":
            self._use(body)

    def _use(self, text: str) -> None:
        for name in _WORD.findall(text):
            if name in self.uses and self.uses[name].state in ("unused", "tested"):
                self.uses[name].state = "used"


def macro_uses(files: Mapping[str, str], implementation: Implementation, names: Collection[str]) -> dict[str, MacroUse]:
    """Return the use of each macro in a source and the family's included headers, by macro name.

    Args:
        files: texts of the family's files by file name.
        names: names of the macros.
    """
    scan = _Scan(uses={name: MacroUse() for name in names})
    for line in lines_of(files, implementation):
        scan.take(line)
    return scan.uses


def lines_of(files: Mapping[str, str], implementation: Implementation) -> Iterator[Line]:
    """Yield the logical lines of a source, with each header of the family inserted where it is first included."""
    seen: set[str] = set()
    for header in _headers_of_flags(implementation.flags):
        yield from _read(files, file_of(files, header, ""), seen)
    yield from _read(files, implementation.file, seen)


def words_of(files: Mapping[str, str], implementation: Implementation) -> frozenset[str]:
    """Return all words in a source and the included headers of the family, without comments and strings."""
    return frozenset(word for line in lines_of(files, implementation) for word in _WORD.findall(line.text))


def all_read(files: Mapping[str, str], implementation: Implementation) -> bool:
    """Return True if no flag adds headers from outside the family, and no line forms names with ``##``.

    Otherwise, the kernel may use names that do not occur in `lines_of`.
    """
    outside = any(flag.startswith(("-I", "-include", "-iquote", "-isystem", "--")) for flag in implementation.flags)
    return not outside and not any("##" in line.text for line in lines_of(files, implementation))


def near_miss(name: str, files: Mapping[str, str], implementation: Implementation) -> str | None:
    """Return the word of the source that is most similar to a name, or None if no word is similar."""
    found = get_close_matches(name, sorted(words_of(files, implementation)), n=1, cutoff=0.7)
    return found[0] if found else None


def _headers_of_flags(flags: Sequence[str]) -> Iterator[str]:
    for index, flag in enumerate(flags):
        if flag in _HEADER_FLAGS and index + 1 < len(flags):
            yield flags[index + 1]


def _read(files: Mapping[str, str], name: str | None, seen: set[str]) -> Iterator[Line]:
    if name is None or name not in files or name in seen:
        return
    seen.add(name)
    for line in logical_lines(files[name], name):
        directive = DIRECTIVE.fullmatch(line.text)
        if directive is None or directive[1] not in ("include", "include_next", "import"):
            yield line
        elif (included := INCLUDED.match(directive[2])) is not None:
            yield from _read(files, file_of(files, included[1] or included[2], posixpath.dirname(name)), seen)
        else:  # ``#include MACRO`` may refer to any header of the family
            for each in sorted(files):
                if each.endswith((".h", ".hpp", ".cuh", ".inc", ".hh", ".inl")):
                    yield from _read(files, each, seen)


def file_of(files: Mapping[str, str], name: str, including: str) -> str | None:
    """Return the family's file that an ``#include`` in the folder `including` reads, or None if the family lacks it."""
    for folder in dict.fromkeys((including, "", "include")):
        path = posixpath.normpath(posixpath.join(folder, name))
        if path in files:
            return path
    return next((each for each in files if each.endswith(f"/{name}")), None)


def logical_lines(text: str, name: str) -> Iterator[Line]:
    """Yield the logical lines of a source text, without comments. The place of each line is ``name:line number``."""
    kept = _COMMENTS_AND_TEXTS.sub(_blank, text)
    number, waiting, first = 0, "", 1
    for line in kept.split("\n"):
        number += 1
        first = first if waiting else number
        joined = waiting + line.rstrip("\r")
        if joined.endswith("\\"):
            waiting = joined[:-1]
            continue
        yield Line(text=joined, place=f"{name}:{first}")
        waiting = ""


def _blank(match: re.Match[str]) -> str:
    """Return the text that replaces a comment or literal.

    A comment is replaced with a space and its line breaks, a literal with empty quotes. The string of an ``#include``
    is kept. The words of a ``_Pragma`` are kept, because compilers expand macros in them.
    """
    found = match[0]
    if found.startswith("/"):
        return " " + "\n" * found.count("\n")
    if found.startswith("R"):
        return '""' + "\n" * found.count("\n")
    near = max(0, match.start() - _NEAR)
    if _OF_PRAGMA.search(match.string, near, match.start()):
        return found[1:-1].replace('\\"', " ")
    line = match.string.rfind("\n", near, match.start()) + 1
    directive = DIRECTIVE.fullmatch(match.string[line : match.start()]) if line or not near else None
    return found if directive is not None and directive[1] in ("include", "include_next", "import") else '""'
