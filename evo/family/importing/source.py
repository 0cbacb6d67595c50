"""Reads a C, C++ or CUDA source: functions that can be called, their parameters, and macros with their values."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evo.family.source.language import Language

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_KERNEL = re.compile(
    r"(?P<template>template\s*<(?P<given>[^;{}]*?)>\s*)?"
    r"(?:(?:extern\s*\"C\"|static|inline)\s*)*__global__\s+(?:void\s+)?"
    r"(?:__launch_bounds__\s*\((?P<bounds>[^()]*(?:\([^()]*\)[^()]*)*)\)\s*)?(?:void\s+)?"
    r"(?P<name>\w+)\s*\((?P<parameters>[^{};]*)\)\s*\{",
    re.DOTALL,
)
_NEAR = 1_000
"""Characters before a function among which its qualifiers are looked for."""

_FUNCTION = re.compile(r"\bvoid\s+(?P<name>\w+)\s*\((?P<parameters>[^{};]*)\)\s*\{", re.DOTALL)
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)\s+(-?\d+)\s*$")
_GUARD = re.compile(r"\s*#\s*ifndef\s+([A-Za-z_]\w*)\s*$")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|struct|__restrict__|__restrict|restrict|__grid_constant__)\b")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function; `c_type` is without qualifiers and pointers."""

    name: str
    c_type: str
    pointer: bool
    constant: bool


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function that can be the kernel's entry.

    Attributes:
        body: text between its braces, without comments.
        template: template parameters of the function, e.g. ``typename T``; empty for a plain function.
        bounds: expression in ``__launch_bounds__``; empty if there is none.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    template: tuple[str, ...] = ()
    bounds: str = ""


@dataclass(frozen=True, kw_only=True)
class Macro:
    """A macro with a whole number as its value.

    Attributes:
        guarded: True if its definition applies only when it is not yet defined.
        line: line number of the definition, from 0.
    """

    name: str
    value: int
    guarded: bool
    line: int


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source with its functions and macros; `plain` is the text without comments."""

    text: str
    plain: str
    language: Language
    functions: tuple[Function, ...]
    macros: tuple[Macro, ...]

    def with_guards(self, names: set[str]) -> str:
        """Return the text with a guard around the definition of each of these macros, so that ``-D`` can set it."""
        lines = self.text.split("\n")
        for macro in self.macros:
            if macro.name in names and not macro.guarded:
                lines[macro.line] = f"#ifndef {macro.name}\n{lines[macro.line]}\n#endif"
        return "\n".join(lines)


def read_source(text: str, language: Language) -> Source:
    """Read functions and macros of a source. Anything that needs a preprocessor or a full parser is left out."""
    plain = _COMMENTS.sub(lambda match: " " + "\n" * match[0].count("\n"), text)
    found = _kernels(plain) if language == "cuda" else _functions(plain)
    return Source(text=text, plain=plain, language=language, functions=tuple(found), macros=tuple(_macros(plain)))


def _kernels(text: str) -> Iterator[Function]:
    for match in _KERNEL.finditer(text):
        given = match["given"] or ""
        yield Function(
            name=match["name"],
            parameters=_parameters(match["parameters"]),
            body=_body(text, match.end()),
            template=tuple(each.strip() for each in given.split(",") if each.strip()),
            bounds=(match["bounds"] or "").split(",")[0].strip(),
        )


def _functions(text: str) -> Iterator[Function]:
    for match in _FUNCTION.finditer(text):
        outside = re.sub(r'extern\s*"C"\s*\{', "", text[: match.start()])
        head = re.split(r"[;{}()#]", text[max(0, match.start() - _NEAR) : match.start()])[-1]
        if outside.count("{") > outside.count("}") or re.search(r"\b(static|template)\b", head):
            continue
        yield Function(name=match["name"], parameters=_parameters(match["parameters"]), body=_body(text, match.end()))


def _body(text: str, start: int) -> str:
    depth = 1
    for index in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if not depth:
            return text[start:index]
    return text[start:]


def _parameters(text: str) -> tuple[Parameter, ...]:
    parts = [each.strip() for each in _split(text)]
    return tuple(_parameter(each) for each in parts if each and each != "void")


def _split(text: str) -> Iterator[str]:
    """Yield the parts between commas that no bracket encloses."""
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
    guards: list[str] = []
    for number, line in enumerate(text.split("\n")):
        if (guard := _GUARD.match(line)) is not None:
            guards.append(guard[1])
        elif re.match(r"\s*#\s*if", line):
            guards.append("")
        elif re.match(r"\s*#\s*endif", line):
            del guards[-1:]
        elif (match := _DEFINE.match(line)) is not None:
            yield Macro(name=match[1], value=int(match[2]), guarded=match[1] in guards, line=number)
