"""Reads a C, C++ or CUDA source: functions that can be called, their parameters, and macros with their values."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from evo.family.source.language import Language

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_KERNEL = re.compile(
    r"__global__\s+(?:void\s+)?"
    r"(?:__launch_bounds__\s*\((?P<bounds>[^()]*(?:\([^()]*\)[^()]*)*)\)\s*)?(?:void\s+)?"
    r"(?P<name>\w+)\s*\("
)
_BEFORE = re.compile(r"(?:extern\s*\"C\"|static|inline)\s*\Z")
"""Matches a word that may be between the template parameters and ``__global__``."""
_LONGEST_WORD = 40
"""Number of characters that are searched for such a word."""
_TEMPLATE = re.compile(r"template\s*<")
_NEAR = 1_000
"""Number of characters before a function that are searched for its qualifiers."""

_FUNCTION = re.compile(r"\bvoid\s+(?P<name>\w+)\s*\(")
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)\s+(-?\d+)\s*$")
_GUARD = re.compile(r"\s*#\s*ifndef\s+([A-Za-z_]\w*)\s*$")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|struct|__restrict__|__restrict|restrict|__grid_constant__)\b")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function. `c_type` excludes qualifiers and pointers."""

    name: str
    c_type: str
    pointer: bool
    constant: bool


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function that can be the kernel's entry.

    Attributes:
        body: text between the function's braces, without comments.
        body_start: position of the body in `Source.plain`.
        template: template parameters of the function, e.g. ``typename T``; empty for a plain function.
        bounds: expression in ``__launch_bounds__``; empty if there is none.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    template: tuple[str, ...] = ()
    bounds: str = ""
    body_start: int = 0


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A macro whose value is a whole number.

    Attributes:
        guarded: True if the definition applies only if the macro is not yet defined.
        line: line number of the definition, from 0.
    """

    name: str
    value: int
    guarded: bool
    line: int


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source with its functions and macros. `plain` is the text without comments."""

    text: str
    plain: str
    language: Language
    functions: tuple[Function, ...]
    macros: tuple[Macro, ...]

    def with_guards(self, names: set[str]) -> str:
        """Return the text with a guard around the definitions of these macros, so that ``-D`` can set them."""
        lines = self.text.split("\n")
        for macro in self.macros:
            if macro.name in names and not macro.guarded:
                lines[macro.line] = f"#ifndef {macro.name}\n{lines[macro.line]}\n#endif"
        return "\n".join(lines)


def read_source(text: str, language: Language) -> Source:
    """Read functions and macros of a source. Constructs that need a preprocessor or a full parser are ignored."""
    plain = _COMMENTS.sub(lambda match: " " + "\n" * match[0].count("\n"), text)
    found = _kernels(plain) if language == "cuda" else _functions(plain)
    return Source(text=text, plain=plain, language=language, functions=tuple(found), macros=tuple(_macros(plain)))


def _kernels(text: str) -> Iterator[Function]:
    marks, end = Marks(text), 0
    for match in _KERNEL.finditer(text):
        if match.start() < end or (definition := marks.definition(match.end())) is None:
            continue  # inside another kernel, or only a declaration
        before = text[
            max(marks.before(match.start()), end, text.rfind("__global__", end, match.start())) : match.start()
        ]
        given = _template(before)
        end = definition.end
        yield Function(
            name=match["name"],
            parameters=_parameters(definition.parameters),
            body=definition.body,
            body_start=definition.begin,
            template=tuple(each.strip() for each in given.split(",") if each.strip()),
            bounds=(match["bounds"] or "").split(",")[0].strip(),
        )


def _template(before: str) -> str:
    """Return the template parameters at the end of the text before ``__global__``; empty if there are none."""
    before = before.rstrip()
    while (word := _BEFORE.search(before, max(0, len(before) - _LONGEST_WORD))) is not None:
        before = before[: word.start()].rstrip()
    begun = _TEMPLATE.search(before)
    return before[begun.end() : -1] if begun is not None and before.endswith(">") else ""


def _functions(text: str) -> Iterator[Function]:
    marks, end, depth, counted = Marks(text), 0, 0, 0
    for match in _FUNCTION.finditer(text):
        outside = re.sub(r'extern\s*"C"\s*\{', "", text[counted : match.start()])
        depth, counted = depth + outside.count("{") - outside.count("}"), match.start()
        if match.start() < end or (definition := marks.definition(match.end())) is None:
            continue
        head = re.split(r"[;{}()#]", text[max(0, match.start() - _NEAR) : match.start()])[-1]
        if depth > 0 or re.search(r"\b(static|template)\b", head):
            end = definition.begin
            continue
        end = definition.end
        yield Function(
            name=match["name"],
            parameters=_parameters(definition.parameters),
            body=definition.body,
            body_start=definition.begin,
        )


@dataclass(frozen=True, kw_only=True)
class Definition:
    """The parameters and the body of a function, and the positions where the body begins and ends."""

    parameters: str
    body: str
    begin: int
    end: int


class Marks:
    """Positions of braces and semicolons in a text, found once so that reading all functions takes linear time."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._positions: list[int] = []
        self._closing: dict[int, int] = {}
        self._last: dict[int, int] = {}
        opened: list[int] = []
        for found in re.finditer(r"[{};]", text):
            self._positions.append(found.start())
            if found[0] == "{":
                opened.append(found.start())
            elif found[0] == "}" and opened:
                self._closing[opened.pop()] = found.start()

    def before(self, position: int) -> int:
        """Return the position after the last brace or semicolon before a position; 0 if there is none."""
        index = bisect_left(self._positions, position)
        return self._positions[index - 1] + 1 if index else 0

    def definition(self, start: int) -> Definition | None:
        """Return the definition whose parameters begin at `start`; None if no body follows the parameters.

        A body without a closing brace extends to the end of the text.
        """
        index = bisect_left(self._positions, start)
        if index == len(self._positions) or self._text[self._positions[index]] != "{":
            return None
        opening = self._positions[index]
        last = self._last_before(opening)
        if last < start or self._text[last] != ")":
            return None
        end = self._closing.get(opening, len(self._text))
        begin = opening + 1
        return Definition(parameters=self._text[start:last], body=self._text[begin:end], begin=begin, end=end)

    def _last_before(self, opening: int) -> int:
        """Return the position of the last character before a brace that is not a blank; -1 if there is none."""
        if opening not in self._last:
            position = opening - 1
            while position >= 0 and self._text[position].isspace():
                position -= 1
            self._last[opening] = position
        return self._last[opening]


def _parameters(text: str) -> tuple[Parameter, ...]:
    parts = [each.strip() for each in _split(text)]
    return tuple(_parameter(each) for each in parts if each and each != "void")


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that are not inside brackets."""
    depth, start = 0, 0
    for index, character in enumerate(text):
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            yield text[start:index]
            start = index + 1
    yield text[start:]


def _parameter(text: str) -> Parameter:
    plain = _QUALIFIERS.sub(" ", text)
    pointer = "*" in plain or "[" in plain
    words = re.findall(r"[\w:]+", plain.split("[")[0].replace("*", " "))
    return Parameter(
        name=words[-1] if words else "",
        c_type=" ".join(words[:-1]),
        pointer=pointer,
        constant=re.search(r"\bconst\b", text.split("*", maxsplit=1)[0]) is not None,
    )


def _macros(text: str) -> Iterator[Macro]:
    guards, guarded = list[str](), Counter[str]()
    for number, line in enumerate(text.split("\n")):
        if (guard := _GUARD.match(line)) is not None:
            guards.append(guard[1])
            guarded[guard[1]] += 1
        elif re.match(r"\s*#\s*if", line):
            guards.append("")
        elif re.match(r"\s*#\s*endif", line):
            guarded.subtract(guards[-1:])
            del guards[-1:]
        elif (match := _DEFINE.match(line)) is not None:
            yield Macro(name=match[1], value=int(match[2]), guarded=guarded[match[1]] > 0, line=number)
