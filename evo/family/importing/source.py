"""Reads a C, C++ or CUDA source: functions that can be called, their parameters, and macros with their values."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evo.family.importing.braces import Marks, parts
from evo.family.importing.host_code import device_includes, host_functions
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
"""Number of characters that are searched for a word that `_BEFORE` matches."""
_TEMPLATE = re.compile(r"template\s*<")
_NEAR = 1_000
"""Number of characters before a function that are searched for its qualifiers."""

_NAMESPACE = re.compile(r"\bnamespace\s+([\w:]+)\s*\{")
_FUNCTION = re.compile(r"\bvoid\s+(?P<name>\w+)\s*\(")
_DEFINE = re.compile(r"\s*#\s*define\s+([A-Za-z_]\w*)\s+(?:(-?\w+)|\(\s*(-?\w+)\s*\))\s*$")
_WHOLE = re.compile(r"(-?)(0[xX][0-9a-fA-F]{1,15}|\d{1,18})[uUlL]{0,3}")
_GUARD = re.compile(r"\s*#\s*ifndef\s+([A-Za-z_]\w*)\s*$")
_QUALIFIERS = re.compile(r"\b(?:const|volatile|struct|__restrict__|__restrict|restrict|__grid_constant__)\b")


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a function.

    Attributes:
        c_type: type without qualifiers and pointers.
        extents: text in each pair of brackets of an array parameter; empty for an extent that is not stated, e.g. of a
            pointer.
    """

    name: str
    c_type: str
    pointer: bool
    constant: bool
    reference: bool = False
    extents: tuple[str, ...] = ()


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
        alias: macro that the definition names, e.g. ``BOX`` in ``#define FILTER BOX``; empty for a number.
    """

    name: str
    value: int
    guarded: bool
    line: int
    alias: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source with its functions and macros. `plain` is the text without comments."""

    text: str
    plain: str
    language: Language
    functions: tuple[Function, ...]
    macros: tuple[Macro, ...]

    def namespace(self, function: Function) -> str:
        """Return the namespaces around a function as the prefix of its name, e.g. ``own::``."""
        marks, place = Marks(self.plain), function.body_start
        around = [
            each[1] for each in _NAMESPACE.finditer(self.plain) if each.end() <= place <= marks.closing(each.end() - 1)
        ]
        return "".join(f"{name}::" for name in around)

    def instance(self, function: Function) -> tuple[str, ...]:
        """Return the template arguments of an explicit instantiation or launch in the source; empty if none exists."""
        for found in re.finditer(rf"\b{function.name}\s*<(?!<)", self.plain):
            arguments = _until_closed(self.plain[found.end() : found.end() + _NEAR])
            if arguments is None:
                continue
            following = self.plain[found.end() + len(arguments) + 1 :][:_LONGEST_WORD].lstrip()
            statement = re.split(r"[;{}]", self.plain[max(0, found.start() - _NEAR) : found.start()])[-1]
            if following.startswith("<<<") or (following.startswith("(") and re.search(r"\btemplate\b", statement)):
                return tuple(each.strip() for each in parts(arguments))
        return ()

    def compilable(self, names: set[str], declared: str = "") -> str:
        """Return the text with ``#ifndef`` around the definitions of some macros, so that ``-D`` can set the macros.

        In a CUDA source, host functions are guarded so that NVRTC skips them, and headers that it lacks are replaced.

        Args:
            names: names of the macros.
            declared: function that is declared ``extern "C"``; empty for none.
        """
        lines = self.text.split("\n")
        if declared and self.language == "cuda":
            line = next((_line(each) for each in _KERNEL.finditer(self.plain) if each["name"] == declared), 0)
            lines[line] = re.sub(r"^(\s*)__global__", r'\1extern "C" __global__', lines[line])
        elif declared and (head := _head(declared, self.plain)) is not None:
            line, parameters = head
            lines[line] = f'extern "C" void {declared}({parameters});\n{lines[line]}'
        for macro in self.macros:
            if macro.name in names and not macro.guarded:
                lines[macro.line] = f"#ifndef {macro.name}\n{lines[macro.line]}\n#endif"
        if self.language == "cuda":
            self._guard_host_code(lines)
        return "\n".join(lines)

    def _guard_host_code(self, lines: list[str]) -> None:
        for first, last in host_functions(self.plain, self.text):
            lines[first] = f"#ifndef __CUDACC_RTC__  // host code, which NVRTC cannot compile\n{lines[first]}"
            lines[last] += "\n#endif"
        for line, replacement in device_includes(self.plain).items():
            lines[line] = replacement


def _line(found: re.Match[str]) -> int:
    return found.string.count("\n", 0, found.start())


def lacks_c_linkage(name: str, sources: Sequence[Source]) -> bool:
    """Return True if no declaration of a function is ``extern "C"``, so that C++ exports it under a mangled name."""
    return not any(_has_c_linkage(name, each) for each in sources)


def _has_c_linkage(name: str, source: Source) -> bool:
    heads = _KERNEL.finditer(source.plain) if source.language == "cuda" else _outer_heads(source.plain)
    place = next((found.start() for found in heads if found["name"] == name), None)
    return place is not None and _is_within_c(source.plain, place)


def _is_within_c(text: str, place: int) -> bool:
    """Return True if the declaration at a position is ``extern "C"``, or is in an ``extern "C"`` block."""
    marks, blocks = Marks(text), [block.end() - 1 for block in re.finditer(r'extern\s*"C"[^{};]*\{', text)]
    before = re.split(r"[;{}#]", text[max(0, place - _NEAR) : place])[-1]
    inside = any(block < place < marks.closing(block) for block in blocks)
    return inside or re.search(r'extern\s*"C"', before) is not None


def _head(name: str, text: str) -> tuple[int, str] | None:
    """Return the first declaration of a function: its line number, from 0, and its parameters without defaults.

    None if the function is not declared.
    """
    found = next((each for each in _outer_heads(text) if each["name"] == name), None)
    given = None if found is None else re.match(r"([^()]*(?:\([^()]*\)[^()]*)*)\)", text[found.end() :])
    if found is None or given is None:
        return None
    before = text[: found.start()].split("\n")[:-1]
    while before and before[-1].strip() and not re.search(r"[;{}]\s*$|^\s*#", before[-1]):
        del before[-1]
    parameters = ", ".join(" ".join(each.partition("=")[0].split()) for each in parts(given[1]))
    return len(before), parameters


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
            bounds=next(parts(match["bounds"] or "")).strip(),
        )


def _template(before: str) -> str:
    """Return the template parameters at the end of the text before ``__global__``; empty if there are none."""
    before = before.rstrip()
    while (word := _BEFORE.search(before, max(0, len(before) - _LONGEST_WORD))) is not None:
        before = before[: word.start()].rstrip()
    begun = _TEMPLATE.search(before)
    return before[begun.end() : -1] if begun is not None and before.endswith(">") else ""


def _functions(text: str) -> Iterator[Function]:
    marks, end = Marks(text), 0
    for match in _outer_heads(text):
        if match.start() < end or (definition := marks.definition(match.end())) is None:
            continue
        head = re.split(r"[;{}()#]", text[max(0, match.start() - _NEAR) : match.start()])[-1]
        if re.search(r"\b(static|template|inline|constexpr)\b", head):
            end = definition.begin
            continue
        end = definition.end
        yield Function(
            name=match["name"],
            parameters=_parameters(definition.parameters),
            body=definition.body,
            body_start=definition.begin,
        )


def _outer_heads(text: str) -> Iterator[re.Match[str]]:
    """Yield the heads of void functions that are not inside a function, class or namespace."""
    depth, counted = 0, 0
    for match in _FUNCTION.finditer(text):
        outside = re.sub(r'extern\s*"C"\s*\{', "", text[counted : match.start()])
        depth, counted = depth + outside.count("{") - outside.count("}"), match.start()
        if depth <= 0:
            yield match


_MACRO_FUNCTION = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^()\n]*)\)((?:[^\\\n]|\\.|\\\n)*)", re.MULTILINE)
_STATEMENTS = frozenset({"if", "for", "while", "switch", "catch"})


def helpers(text: str) -> dict[str, tuple[Function, ...]]:
    """Return the functions and function-like macros of a text, as tuples of overloads by name.

    The parameters of macros are treated as references, because a macro can assign to its arguments.
    """
    found: dict[str, tuple[Function, ...]] = {}
    for function in (*_definitions(text), *_macro_functions(text)):
        found[function.name] = (*found.get(function.name, ()), function)
    return found


def _macro_functions(text: str) -> Iterator[Function]:
    for match in _MACRO_FUNCTION.finditer(text):
        names = [each.strip() for each in match[2].split(",")]
        parameters = [Parameter(name=each, c_type="", pointer=True, constant=False, reference=True) for each in names]
        yield Function(name=match[1], parameters=tuple(parameters), body=match[3].replace("\\\n", " "))


def _definitions(text: str) -> Iterator[Function]:
    """Yield every function with a body, including functions in namespaces and classes."""
    marks, end = Marks(text), 0
    opened, opening = list[int](), dict[int, int]()
    for found in re.finditer(r"[()]", text):
        if found[0] == "(":
            opened.append(found.start())
        elif opened:
            opening[found.start()] = opened.pop()
    for brace in re.finditer("{", text):
        last = marks.last_before(brace.start())
        if brace.start() < end or last not in opening:
            continue
        begin = opening[last]
        name = re.search(r"(\w+)\s*\Z", text[max(0, begin - _NEAR) : begin])
        if name is not None and name[1] not in _STATEMENTS:
            end = marks.closing(brace.start())
            parameters = _parameters(text[begin + 1 : last])
            yield Function(name=name[1], parameters=parameters, body=text[brace.end() : end])


def _parameters(text: str) -> tuple[Parameter, ...]:
    given = [each.strip() for each in parts(text)]
    return tuple(_parameter(each) for each in given if each and each != "void")


def _until_closed(text: str) -> str | None:
    """Return the text before the ``>`` that has no opening bracket in the text; None if there is none."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(character, 0)
        if depth < 0:
            return text[:place] if character == ">" else None
    return None


def _parameter(text: str) -> Parameter:
    plain = _QUALIFIERS.sub(" ", text)
    declared, *brackets = plain.split("[")
    words = re.findall(r"[\w:]+", declared)
    extents = [re.sub(r"\bstatic\b", "", each.partition("]")[0]).strip() for each in brackets]
    return Parameter(
        name=words[-1] if words else "",
        c_type=" ".join(words[:-1]),
        pointer="*" in declared or bool(brackets),
        constant=re.search(r"\bconst\b", re.split(r"[*\[]", text, maxsplit=1)[0]) is not None,
        reference="&" in text,
        extents=("",) * bool(extents and "*" in declared) + tuple(extents),
    )


def _macros(text: str) -> Iterator[Macro]:
    guards, guarded, values = list[str](), Counter[str](), dict[str, int]()
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
            name, text = match[1], match[2] or match[3]
            value = whole_number(text)
            alias = text if value is None and text in values else ""
            value = values[text] if alias else value
            if value is not None:
                values[name] = value
                yield Macro(name=name, value=value, guarded=guarded[name] > 0, line=number, alias=alias)


def whole_number(text: str) -> int | None:
    """Return the value of a whole number in C; None for other texts."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    octal = found[2].startswith("0") and found[2].isdigit()
    try:
        return int(found[1] + found[2], 8 if octal else 0)
    except ValueError:  # e.g. 08, which is not octal
        return None
