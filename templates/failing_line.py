"""Finds the tunables that decide whether a failing line of a source is compiled, without compiling the source.

The analysis ignores the order of lines. A macro depends on every definition of its name in the family's files, and on
the conditions around these definitions. The result may therefore contain tunables without influence, but never omits
one with influence. If the tunables cannot be determined from the text, the result is unknown.
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from evo.family import Implementation
from evo.family.source.standard_headers import is_standard
from templates.source import DIRECTIVE, INCLUDED, Line, all_read, file_of, lines_of, logical_lines

_ERROR = re.compile(
    r"^(?P<file>[^\s:(][^:(\n]*)(?:\((?P<a>\d+)\)|:(?P<b>\d+)(?::\d+)?): (?:fatal |catastrophic )?error\b(?P<text>.*)",
    re.MULTILINE,
)
"""Matches the position and the text of an error of gcc, clang, nvcc or NVRTC."""

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_ASSERTION = re.compile(r"static.?assert", re.IGNORECASE)
_INSTANTIATED = frozenset({"template", "auto"})
"""C++ words that may make an assertion depend on the arguments of a template."""

_CONSTANT = frozenset(
    _NAME.findall(
        "static_assert _Static_assert sizeof alignof _Alignof true false bool char short int long float double void "
        "signed unsigned const size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t"
    )
)
"""Keywords and types, which do not depend on tunables."""


def deciding_tunables(
    log: str, files: Mapping[str, str], implementation: Implementation, fields: Iterable[str], folders: Iterable[str]
) -> tuple[str, ...] | None:
    """Return the tunables that decide whether the line with the first error of a log is compiled.

    If the error is a failed static assertion, the tunables on which the assertion depends are included.

    Args:
        log: output of the compiler.
        files: texts of the family's files by file name.
        fields: names of the problem fields, which have one value in a search.
        folders: paths of the folders with the family's files, as the compiler prints them.

    Returns:
        The names in declared order, or None if they are unknown, e.g. because a header outside the family may define a
        macro that a condition uses.
    """
    found = _ERROR.search(log)
    if found is None or re.search(r"\berror\b", log[: found.start()], re.IGNORECASE):
        return None
    if implementation.mode != "source" or not all_read(files, implementation):
        return None
    source = _Source.read(files, implementation, fields)
    file = next((found["file"][len(each) + 1 :] for each in folders if found["file"].startswith(f"{each}/")), None)
    place = f"{file or found['file']}:{found['a'] or found['b']}"
    behind = None if source is None else source.behind(place, assertion=_ASSERTION.search(found["text"]) is not None)
    return None if behind is None else tuple(each.name for each in implementation.tunables if each.name in behind)


@dataclass(kw_only=True)
class _Source:
    """The names on which each line, macro and included file of a source depends.

    An included file is treated like a macro: it depends on the names in the conditions around the ``#include`` lines
    that name it.

    Attributes:
        tunables: for each macro that kernel-evo defines, the tunables that determine its value.
        constants: names that do not depend on tunables.
        lines: lines of each file.
        around: for the position of each line, the names in the conditions around it, and the name of its file.
        conditions: for each macro or included file, the contents of `around` at its definitions or ``#include`` lines.
        values: for each macro, the names in its definitions.
        outside: True if the source includes headers outside the family, which may define any name.
    """

    tunables: Mapping[str, Collection[str]]
    constants: Collection[str]
    lines: dict[str, list[Line]] = field(default_factory=dict)
    around: dict[str, set[str]] = field(default_factory=dict)
    conditions: dict[str, set[str]] = field(default_factory=dict)
    values: dict[str, set[str]] = field(default_factory=dict)
    outside: bool = False

    @classmethod
    def read(cls, files: Mapping[str, str], implementation: Implementation, fields: Iterable[str]) -> "_Source | None":
        """Return the conditions and definitions of a source, or None if they cannot be determined from the text."""
        macros = _macros(implementation)
        flags = {name for flag in implementation.flags for name in _NAME.findall(flag.removeprefix("-D"))}
        specific = implementation.specific.names if implementation.specific else frozenset()
        if flags & macros.keys() or specific & {each.name for each in implementation.tunables}:
            return None
        constants = _CONSTANT | {implementation.macro(name) for name in fields if implementation.becomes_macro(name)}
        source = cls(tunables=macros, constants=constants)
        names = dict.fromkeys(line.place.rpartition(":")[0] for line in lines_of(files, implementation))
        return source if all(source._add(files, name) for name in names) else None

    def behind(self, place: str, *, assertion: bool) -> set[str] | None:
        """Return the tunables that decide whether a line is compiled, or None if they are unknown.

        Args:
            place: position of the line.
            assertion: True to include the tunables that decide whether the line's assertion holds.
        """
        file = place.rpartition(":")[0]
        line = next((each for each in self.lines.get(file, ()) if each.place == place), None)
        directive = None if line is None else DIRECTIVE.fullmatch(line.text)
        if line is None or (directive is not None and directive[1] == "define"):
            return None
        asserted = self._asserted(line, self.lines[file]) if assertion else set[str]()
        if asserted is None:
            return None
        names = _closure(self.around[place] | asserted, self.values, self.conditions)
        if self.outside and any(not name.startswith("_") for name in names - self._known - {"defined"}):
            return None
        return {tunable for name in names for tunable in self.tunables.get(name, ())}

    def _asserted(self, line: Line, lines: list[Line]) -> set[str] | None:
        """Return the names in the assertion of a line, or None if other names may decide whether it holds."""
        text = line.text
        for further in lines[lines.index(line) + 1 :]:
            if ";" in text or DIRECTIVE.fullmatch(further.text):
                break
            text += f" {further.text}"
        names = {*_NAME.findall(text)}
        words = {name for each in self.lines.values() for other in each for name in _NAME.findall(other.text)}
        if ";" not in text or words & _INSTANTIATED or not (_ASSERTION.search(line.text) or names & self.values.keys()):
            return None
        return names if _closure(names, self.values) <= self._known else None

    @property
    def _known(self) -> set[str]:
        return {*self.constants, *self.tunables, *self.values, *self.lines}

    def _add(self, files: Mapping[str, str], file: str) -> bool:
        """Add the lines of a file. Return False if conditions and definitions cannot be determined from the text."""
        open_conditions: list[set[str]] = []
        self.lines[file] = [*logical_lines(files[file], file)]
        for line in self.lines[file]:
            directive = DIRECTIVE.fullmatch(line.text)
            kind, rest = (directive[1], directive[2].strip()) if directive else ("", "")
            if kind in ("if", "ifdef", "ifndef"):
                open_conditions.append({*_NAME.findall(rest)})
            elif kind.startswith(("el", "endif")) and not open_conditions:
                return False
            elif kind.startswith("el"):
                open_conditions[-1].update(_NAME.findall(rest))
            elif kind == "endif":
                open_conditions.pop()
            around = self.around[line.place] = {file}.union(*open_conditions)
            if kind in ("define", "undef"):
                self._define(rest, around)
            elif kind in ("include", "include_next", "import"):
                if (found := INCLUDED.match(rest)) is None:
                    return False
                name = found[1] or found[2]
                included = file_of(files, name, posixpath.dirname(file))
                self.outside = self.outside or (included is None and not is_standard(name))
                self.conditions.setdefault(included or name, set()).update(around)
            elif kind == "line":
                return False
        return not open_conditions

    def _define(self, rest: str, around: set[str]) -> None:
        if (found := _NAME.match(rest)) is not None:
            body = rest[found.end() :]
            parameters = re.match(r"\([^()]*\)", body)
            names = {*_NAME.findall(body)}.difference(_NAME.findall(parameters[0]) if parameters else ())
            self.values.setdefault(found[0], set()).update(names)
            self.conditions.setdefault(found[0], set()).update(around)


def _macros(implementation: Implementation) -> dict[str, frozenset[str]]:
    """Return, for each macro that kernel-evo defines, the tunables that determine its value."""
    tunables = frozenset(each.name for each in implementation.tunables)
    names = {name: frozenset({name}) for name in tunables}
    names |= {name: each.names & tunables for name, each in implementation.derived.items()}
    return {implementation.macro(name): on for name, on in names.items() if implementation.becomes_macro(name)}


def _closure(names: Iterable[str], *dependences: Mapping[str, Collection[str]]) -> set[str]:
    """Return the names, and all names on which they depend directly or indirectly."""
    waiting, found = [*names], set[str]()
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += [other for each in dependences for other in each.get(name, ())]
    return found
