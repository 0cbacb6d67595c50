"""Reads the launch of a CUDA kernel in a source (``kernel<<<grid, block, bytes>>>``) as expressions of a family."""

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from evo.errors import EvoError
from evo.family.importing.braces import closed, parts
from evo.space.expression import Expression

_CAST = re.compile(r"\(\s*(?:(?:unsigned|signed|long|int|float|double|size_t|u?int\d+_t)\s*)+\)(?=\s*[\w(])")
_NAMED_CAST = re.compile(r"\b(?:static_cast\s*<[^<>]*>|(?:int|unsigned|float|double|size_t|u?int\d+_t)(?=\s*\())")
_SIZEOF = re.compile(r"\bsizeof\s*\(\s*([\w ]+?)\s*\)")
_SUFFIX = re.compile(r"\b(\d+)(?:[uUlL]+|\.0?f?)(?!\w)")
_COMPONENT = re.compile(r"\b(\w+)\.([xyz])\b")
_ROUNDED_UP = re.compile(r"(?i)ceil|c(?:eil)?_?div|div(?:ide)?_?(?:round_?)?up|ceil_?div\w*")
_LONGEST = 2_000
"""Number of characters of the longest launch that is read."""
_NEAR = 20_000
"""Number of characters before a launch that are searched for definitions of its variables."""
_DEEPEST = 8
"""Maximum number of variables that are defined by one another."""
_MOST = 50
"""Maximum number of launches of one kernel that are read."""
_BYTES = {"double": 8, "float": 4, "half": 2, "int": 4, "unsigned": 4, "short": 2, "char": 1, "long long": 8}
_BYTES |= {"__half": 2, "__nv_bfloat16": 2, "float2": 8, "float4": 16, "int4": 16, "half2": 4, "size_t": 8}
_BYTES |= {"unsigned int": 4, "unsigned char": 1, "int8_t": 1, "uint8_t": 1, "int32_t": 4, "uint32_t": 4}


@dataclass(frozen=True, kw_only=True)
class FoundLaunch:
    """A launch in a source. Parts that cannot be written as expressions over the known names are empty.

    Attributes:
        remainders: pairs of expressions. The launch rounds the quotient of each pair down, so a remainder would be left
            out.
        values: whole numbers that the source passes to parameters of the kernel, by parameter.
    """

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared_memory: str = ""
    remainders: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)


def found_launch(code: str, kernel: str, parameters: Collection[str], names: Mapping[str, str]) -> FoundLaunch:
    """Return the first launch of a kernel whose grid and block can be written as expressions.

    Args:
        code: source without comments.
        kernel: name of the kernel without namespaces and template arguments.
        parameters: names of the kernel's parameters, in order.
        names: expressions of the family for parameters of the kernel and macros, by name.
    """
    launches = [_launch(code, each.end(), parameters, names) for each in _launches(code, kernel)]
    return next((each for each in launches if each.grid and each.block), launches[0] if launches else FoundLaunch())


def without_casts(text: str) -> str:
    """Return an expression in C without casts, suffixes of numbers, and ``std::``."""
    return _SUFFIX.sub(r"\1", _NAMED_CAST.sub("", _CAST.sub("", text)).replace("std::", ""))


def parsed(text: str) -> ast.expr | None:
    """Return the syntax tree of an expression in C that is also an expression in Python; None for others."""
    try:
        return ast.parse(" ".join(without_casts(text).split()), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _launches(code: str, kernel: str) -> list[re.Match[str]]:
    found = re.finditer(rf"\b{re.escape(kernel)}\s*(?:<(?!<)[^;{{}}]{{1,200}}?>\s*)?<<<", code)
    return [each for each, _ in zip(found, range(_MOST), strict=False)]


def _launch(code: str, start: int, parameters: Collection[str], names: Mapping[str, str]) -> FoundLaunch:
    """Return the launch whose grid begins at a position."""
    configuration, _, call = code[start : start + _LONGEST].partition(">>>")
    given = [each.strip() for each in parts(configuration.replace("{", "(").replace("}", ")"))]
    passed = dict(zip(parameters, _arguments(call), strict=False))
    host = _Host(
        before=code[max(0, start - _NEAR) : start],
        names={**names, **{value: names[each] for each, value in passed.items() if each in names}},
    )
    grid, block = (_extents(host, given[place]) if place < len(given) else () for place in (0, 1))
    shared = host.expression(given[2]) if len(given) > 2 else None
    numbers = {each: host.number(value) for each, value in passed.items()}
    return FoundLaunch(
        grid=tuple(map(_text, grid)),
        block=tuple(map(_text, block)),
        shared_memory="" if shared is None or _text(shared) == "0" else _text(shared),
        remainders=tuple(dict.fromkeys(pair for each in (*grid, *block) for pair in _remainders(each))),
        values={name: value for name, value in numbers.items() if value is not None},
    )


def _arguments(call: str) -> list[str]:
    begun = re.match(r"\s*\(", call)
    return [each.strip() for each in parts(closed(call[begun.end() :]))] if begun else []


def _extents(host: "_Host", text: str) -> tuple[ast.expr, ...]:
    """Return the extents of a grid or block; empty if an extent is unknown."""
    found = [host.expression(each) for each in host.components(text)]
    known = [each for each in found if each is not None]
    while len(known) > 1 and _text(known[-1]) == "1":
        known.pop()
    return tuple(known) if len(found) in (1, 2, 3) and None not in found else ()


@dataclass(frozen=True, kw_only=True)
class _Host:
    """The host code before a launch.

    Attributes:
        names: expressions of the family for variables and macros, by name.
    """

    before: str
    names: Mapping[str, str]

    def components(self, text: str, depth: int = 0) -> list[str]:
        """Return the components of a ``dim3`` as texts; for a number, a list with only the text itself."""
        made = re.fullmatch(r"(?:dim3\s*)?\((.*)\)", text.strip(), re.DOTALL)
        if made is not None and (text.strip().startswith("dim3") or len(list(parts(made[1]))) > 1):
            return [each.strip() for each in parts(made[1])]
        defined = self._defined(text.strip()) if re.fullmatch(r"\s*\w+\s*", text) else ""
        if not defined or text.strip() in self.names or depth > _DEEPEST:
            return [text]
        return self.components(defined, depth + 1)

    def number(self, variable: str) -> int | None:
        """Return the value of a variable, or of an expression in C, as a whole number; None if it is unknown."""
        text = self._defined(variable) if re.fullmatch(r"[A-Za-z_]\w*", variable) else variable
        found = _Host(before=self.before, names={}).expression(text) if text else None
        try:
            return None if found is None else Expression.parse(_text(found), "FILE").whole({})
        except EvoError:
            return None

    def expression(self, text: str, depth: int = 0) -> ast.expr | None:
        """Return a text in C as an expression of the family; None if that is not possible."""
        plain = _SIZEOF.sub(lambda found: str(_BYTES.get(" ".join(found[1].split()), found[0])), without_casts(text))
        tree = parsed(_COMPONENT.sub(self._component, plain))
        if tree is None:
            return None
        return self._translated(tree, depth)

    def _component(self, found: re.Match[str]) -> str:
        given = self.components(found[1])
        place = "xyz".index(found[2])
        return f"({given[place]})" if place < len(given) and given != [found[1]] else found[0]

    def _translated(self, node: ast.expr, depth: int) -> ast.expr | None:
        match node:
            case ast.Constant(value=int()):
                return node
            case ast.Name(id=name):
                return self._variable(name, depth)
            case ast.Call(func=ast.Name(id=function), args=[*arguments]):
                found = [self._translated(each, depth) for each in arguments]
                known = [each for each in found if each is not None]
                return _called(function, known) if len(known) == len(found) else None
            case ast.BinOp(left=left, op=operation, right=right):
                first, second = self._translated(left, depth), self._translated(right, depth)
                return _combined(first, operation, second) if first is not None and second is not None else None
            case _:
                return None

    def _variable(self, name: str, depth: int) -> ast.expr | None:
        if name in self.names:
            return ast.parse(self.names[name], mode="eval").body
        defined = self._defined(name) if depth < _DEEPEST else ""
        return self.expression(defined, depth + 1) if defined else None

    def _defined(self, name: str) -> str:
        """Return the text that last initialises a variable, e.g. ``dim3(a, b)`` for ``dim3 name(a, b)``."""
        pattern = rf"(?:\bdim3\s+|[,&]\s*|\bauto\s+)?\b{re.escape(name)}\s*(?:=(?!=)|(?P<made>[({{])(?![^;]*<<<))"
        found = None
        for each in re.finditer(pattern, self.before):
            if not each["made"] or re.match(r"dim3|,", each[0]):
                found = each
        if found is None:
            return ""
        rest = self.before[found.end() :][:_LONGEST].replace("{", "(").replace("}", ")")
        return f"dim3({closed(rest)})" if found["made"] else next(parts(rest.partition(";")[0])).strip()


def _called(function: str, arguments: list[ast.expr]) -> ast.expr | None:
    match arguments:
        case [_, _, *_] if function in ("min", "max"):
            return ast.Call(ast.Name(function), arguments, [])
        case [ast.BinOp(left=left, op=ast.FloorDiv(), right=right)] if function.startswith("ceil"):
            return ast.Call(ast.Name("ceil_div"), [left, right], [])
        case [left, right] if _ROUNDED_UP.fullmatch(function):
            return ast.Call(ast.Name("ceil_div"), [left, right], [])
        case _:
            return None


def _combined(left: ast.expr, operation: ast.operator, right: ast.expr) -> ast.expr | None:
    match operation:
        case ast.Div():
            return _rounded_up(left, right) or ast.BinOp(left, ast.FloorDiv(), right)
        case ast.LShift():
            return ast.BinOp(left, ast.Mult(), ast.BinOp(ast.Constant(2), ast.Pow(), right))
        case ast.Add() if _text(right) == "1" and (number := _rounded_down(left)) is not None:
            return number
        case ast.Add() | ast.Sub() | ast.Mult() | ast.Mod():
            return ast.BinOp(left, operation, right)
        case _:
            return None


def _rounded_up(left: ast.expr, right: ast.expr) -> ast.expr | None:
    """Return ``ceil_div(a, b)`` for ``(a + b - 1) / b`` and ``(a - 1 + b) / b``; None for other quotients."""
    (terms, constant), divisor = _terms(left), _text(right)
    if divisor.isdigit():
        rounded = constant == int(divisor) - 1
    else:
        rounded = constant == -1 and divisor in map(_text, terms)
        place = next((place for place, each in enumerate(terms) if _text(each) == divisor), len(terms))
        terms = terms[:place] + terms[place + 1 :]
    return _ceil_div(terms, right) if rounded and terms else None


def _rounded_down(node: ast.expr) -> ast.expr | None:
    """Return ``ceil_div(a, b)``, which equals the node plus 1, for a node ``(a - 1) / b``; None for other nodes."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.FloorDiv):
        return None
    terms, constant = _terms(node.left)
    return _ceil_div(terms, node.right) if constant == -1 and terms else None


def _ceil_div(terms: list[ast.expr], divisor: ast.expr) -> ast.expr:
    number = terms[0]
    for each in terms[1:]:
        number = ast.BinOp(number, ast.Add(), each)
    return ast.Call(ast.Name("ceil_div"), [number, divisor], [])


def _terms(node: ast.expr) -> tuple[list[ast.expr], int]:
    """Return the terms of a sum that are not whole numbers, and the sum of its whole numbers."""
    match node:
        case ast.Constant(value=int(value)):
            return [], value
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as operation, right=right):
            terms, constant = _terms(left)
            if isinstance(operation, ast.Sub):
                number = right.value if isinstance(right, ast.Constant) and isinstance(right.value, int) else None
                return (terms, constant - number) if number is not None else ([node], 0)
            others, added = _terms(right)
            return [*terms, *others], constant + added
        case _:
            return [node], 0


def _remainders(node: ast.expr) -> list[tuple[str, str]]:
    return [
        (_text(each.left), _text(each.right))
        for each in ast.walk(node)
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.FloorDiv) and not _terms(each.left)[1]
    ]


def _text(node: ast.expr) -> str:
    return ast.unparse(node)
