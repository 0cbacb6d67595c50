"""Converts the launch of a CUDA kernel, ``kernel<<<grid, block, bytes>>>`` in a source, into family expressions."""

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

from tree_sitter import Node

from evo.errors import EvoError
from evo.family.importing.syntax import (
    Code,
    arguments,
    called,
    declared,
    expression,
    operator,
    part,
    written,
)
from evo.space.expression import Expression

_ROUNDED_UP = re.compile(r"(?i)ceil|c(?:eil)?_?div|div(?:ide)?_?(?:round_?)?up|ceil_?div\w*")
_FLOAT = re.compile(r"(?=.*[.eE])(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = frozenset({"ceil_div", "min", "max"})
_LOOPS = frozenset({"for_statement", "while_statement", "do_statement", "for_range_loop"})
_DEEPEST = 8
"""Maximum length of a chain of variables in which each variable is defined by the next one."""
_MOST = 50
"""Maximum number of launches of one kernel that are read."""


@dataclass(frozen=True, kw_only=True)
class FoundLaunch:
    """A launch in a source. Parts that cannot be written as expressions over the known names are empty.

    Attributes:
        remainders: pairs of a dividend and a divisor. The launch rounds their quotient down, so the last elements would
            be skipped if the divisor does not divide the dividend.
        values: whole numbers that the source passes to parameters of the kernel, by parameter.
        literals: floating-point literals that the launch passes, as text without a suffix, by parameter.
    """

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared_memory: str = ""
    remainders: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, int] = field(default_factory=dict)
    literals: Mapping[str, str] = field(default_factory=dict)


def found_launch(code: Code, kernel: str, parameters: Collection[str], names: Mapping[str, str]) -> FoundLaunch:
    """Return a launch of a kernel: the first whose grid and block can be written as expressions, else the first.

    The result is an empty `FoundLaunch` if the source does not launch the kernel.

    Args:
        kernel: name of the kernel without namespaces and template arguments.
        parameters: names of the kernel's parameters, in declared order.
        names: expressions that replace parameters of the kernel and macros, by name.
    """
    definitions = _definitions(code)
    calls = (each for each in code.nodes("kernel_call_syntax") if called(code.parent(each)) == kernel)
    launches = [_launch(each, code, definitions, parameters, names) for each in islice(calls, _MOST)]
    return next((each for each in launches if each.grid and each.block), launches[0] if launches else FoundLaunch())


def read_launch(launch: "HostLaunch", code: Code, parameters: Collection[str], names: Mapping[str, str]) -> FoundLaunch:
    """Convert one launch to family expressions.

    Args:
        parameters: names of the kernel's parameters, in declared order.
        names: expressions that replace parameters of the kernel and macros, by name.
    """
    return _launch(launch.node, code, _definitions(code), parameters, names)


def computed_values(
    code: Code, launches: Sequence[tuple[Sequence[str], "HostLaunch"]], macros: Collection[str]
) -> dict[str, str]:
    """Return expressions for scalar arguments that host code computes, e.g. a number of blocks, by argument.

    The expressions contain macros, and host variables that launches pass to other arguments. Numbers, and values that
    host code does not compute from such names, are left out.

    Args:
        launches: for each launch, the names of the arguments that it passes in order, and the launch itself.
    """
    definitions = _definitions(code)
    plain = {text for _, launch in launches for text in launch.passed if text.isidentifier()}
    names = {each: each for each in (*macros, *(code.uses.keys() - definitions.keys()))}
    found, variables = dict[str, str](), dict[str, str]()
    for given, launch in launches:
        host = _Host(launch=launch.node, function=launch.function, definitions=definitions, names=names)
        for name, node in zip(given, arguments(code.parent(launch.node)), strict=False):
            own = written(node)
            others = {each: each for each in plain if each != own}
            value = replace(host, names={**names, **others}).translated(node)
            text = "" if value is None else _text(value)
            used = set(_WORDS.findall(text)) - _FUNCTIONS
            is_variable = text == own and text.isidentifier() and text not in macros
            if used and used <= {*macros, *plain} and not is_variable:
                found.setdefault(name, text)
                variables |= {own: f"({text})"} if own in plain - {*macros} else {}
    return {name: _WORDS.sub(lambda word: variables.get(word[0], word[0]), text) for name, text in found.items()}


def named_constants(code: Code) -> dict[str, int]:
    """Return the values of the integer constants in a source, e.g. ``constexpr int WARPS = 4;``, by name."""
    found = dict[str, int]()
    for node in code.nodes("init_declarator"):
        around, value = code.parent(node), part(node, "value")
        words = {written(each) for each in around.children if each.type == "type_qualifier"}
        if value is not None and value.type == "number_literal" and words & {"const", "constexpr"}:
            number = expression(value)
            if isinstance(number, ast.Constant) and isinstance(number.value, int):
                found[written(declared(part(node, "declarator")))] = number.value
    return found


@dataclass(frozen=True, kw_only=True)
class HostLaunch:
    """A launch in the host code of a source.

    Attributes:
        kernel: name of the kernel without namespaces and template arguments.
        passed: text of each argument, without casts.
        node: syntax node of the grid, block, shared memory and stream.
        function: function that contains the launch; None at file scope.
        is_repeated: True if a loop repeats the launch.
    """

    kernel: str
    passed: tuple[str, ...]
    node: Node
    function: Node | None
    is_repeated: bool


def host_launches(code: Code) -> list[HostLaunch]:
    """Return the launches in a source, in the order of the code."""
    return [
        HostLaunch(
            kernel=called(code.parent(each)),
            passed=tuple(map(_without_casts, arguments(code.parent(each)))),
            node=each,
            function=_function(each, code),
            is_repeated=any(around.type in _LOOPS for around in code.ancestors(each)),
        )
        for each in code.nodes("kernel_call_syntax")
    ]


def _without_casts(node: Node) -> str:
    found = expression(node)
    return found.id if isinstance(found, ast.Name) else written(node)


def launched_together(code: Code, kernel: str) -> tuple[str, ...]:
    """Find the first function that launches the given kernel, and return all kernels that it launches, in order.

    The result is empty if the function launches no other kernel.

    Args:
        kernel: name of the kernel without namespaces and template arguments.
    """
    launches = host_launches(code)
    launching = next((each.function for each in launches if each.kernel == kernel), None)
    names = tuple(dict.fromkeys(each.kernel for each in launches if launching and each.function == launching))
    return names if len(names) > 1 else ()


def zeroed(code: Code, function: Node | None) -> set[str]:
    """Return the host variables whose memory a function zeroes with ``cudaMemset`` or ``cudaMemsetAsync``."""
    found = set[str]()
    for call in code.inside(function).nodes("call_expression") if function is not None else ():
        given = arguments(call)
        if called(call) in ("cudaMemset", "cudaMemsetAsync") and len(given) > 2 and written(given[1]) == "0":
            found.add(_without_casts(given[0]))
    return found


@dataclass(frozen=True, kw_only=True)
class _Definition:
    """A definition of a variable, or an assignment to it.

    Attributes:
        value: value that the variable gets.
        end: position in the code, in bytes, at which the definition ends.
        function: function that contains the definition; None at file scope.
    """

    value: Node
    end: int
    function: Node | None


@lru_cache(maxsize=1)  # every launch of a source needs them
def _definitions(code: Code) -> Mapping[str, Sequence[_Definition]]:
    """Return the definitions of each variable, by name, in the order of the code."""
    found: dict[str, list[_Definition]] = {}
    for node in code.nodes("init_declarator", "assignment_expression", "function_declarator"):
        value, name = part(node, "value") or part(node, "right"), part(node, "declarator") or part(node, "left")
        function = _function(node, code)
        if node.type == "function_declarator" and function is not None and code.parent(node).type == "declaration":
            # within a function, `dim3 block(T);` defines a variable in C++, but the grammar reads a function
            value = Code(f"int _ = _{written(part(node, 'parameters'))};").nodes("argument_list", "init_declarator")[-1]
        if value is not None and name is not None and operator(node) in ("", "="):
            defined = name if name.type == "field_expression" else declared(name)
            definition = _Definition(value=value, end=node.end_byte, function=function)
            found.setdefault(written(defined), []).append(definition)
    return found


def _function(node: Node, code: Code) -> Node | None:
    return next((each for each in code.ancestors(node) if each.type == "function_definition"), None)


def _launch(
    configuration: Node,
    code: Code,
    definitions: Mapping[str, Sequence[_Definition]],
    parameters: Collection[str],
    names: Mapping[str, str],
) -> FoundLaunch:
    given = configuration.named_children
    passed = dict(zip(parameters, arguments(code.parent(configuration)), strict=False))
    host = _Host(
        launch=configuration,
        function=_function(configuration, code),
        definitions=definitions,
        names={**names, **{written(value): names[each] for each, value in passed.items() if each in names}},
    )
    grid, block = (_extents(host, given[place]) if place < len(given) else () for place in (0, 1))
    shared = host.translated(given[2]) if len(given) > 2 else None
    numbers = {each: replace(host, names={}).number(value) for each, value in passed.items()}
    return FoundLaunch(
        grid=tuple(map(_text, grid)),
        block=tuple(map(_text, block)),
        shared_memory="" if shared is None or _text(shared) == "0" else _text(shared),
        remainders=tuple(dict.fromkeys(pair for each in (*grid, *block) for pair in _remainders(each))),
        values={name: value for name, value in numbers.items() if value is not None},
        literals={name: text for name, value in passed.items() if (text := _float(value))},
    )


def _float(node: Node) -> str:
    """Return a floating-point literal without a suffix; empty for other nodes."""
    text = written(node).rstrip("fFlL")
    return text if node.type == "number_literal" and _FLOAT.fullmatch(text) else ""


def _extents(host: "_Host", node: Node) -> tuple[ast.expr, ...]:
    """Return the extents of a grid or block, without trailing extents of 1; empty if an extent is unknown."""
    found = [host.translated(each) for each in host.components(node)]
    known = [each for each in found if each is not None]
    while len(known) > 1 and _text(known[-1]) == "1":
        known.pop()
    return tuple(known) if len(found) in (1, 2, 3) and None not in found else ()


@dataclass(frozen=True, kw_only=True)
class _Host:
    """The host code around a launch.

    Attributes:
        function: function that contains the launch; None at file scope.
        names: expressions that replace variables and macros, by name.
    """

    launch: Node
    function: Node | None
    definitions: Mapping[str, Sequence[_Definition]]
    names: Mapping[str, str]

    def components(self, node: Node, depth: int = 0) -> list[Node]:
        """Return the components of a ``dim3``; for a number, a list with only the node itself."""
        match node.type:
            case "identifier" if written(node) not in self.names and depth <= _DEEPEST:
                members = [self._defined(f"{written(node)}.{axis}") for axis in "xyz"]
                defined = self._defined(written(node))
                given = [node] if defined is None else self.components(defined, depth + 1)
                return [each for each in members if each is not None] or given
            case "call_expression" if called(node) == "dim3":
                return arguments(node)
            case "compound_literal_expression" if (value := part(node, "value")) is not None:
                return value.named_children
            case "argument_list" | "initializer_list":
                inside = node.named_children
                return (
                    inside if len(inside) > 1 else [each for one in inside for each in self.components(one, depth + 1)]
                )
        return [node]

    def number(self, node: Node) -> int | None:
        """Return the value of an expression in C as a whole number; None if it is unknown."""
        found = self.translated(node)
        try:
            return None if found is None else Expression.parse(_text(found), "FILE").whole({})
        except EvoError:
            return None

    def translated(self, node: Node) -> ast.expr | None:
        """Convert a C expression to an expression of the family; None if that is not possible."""
        return self._translated(expression(node), 0)

    def _translated(self, node: ast.expr, depth: int) -> ast.expr | None:
        match node:
            case ast.Constant(value=int()):
                return node
            case ast.Name(id=name):
                return self._variable(name, depth)
            case ast.Attribute(value=ast.Name(id=name), attr="x" | "y" | "z" as axis):
                member, defined = self._defined(f"{name}.{axis}"), self._defined(name)
                given = [] if defined is None else self.components(defined)["xyz".index(axis) :]
                found = next((each for each in (member, *given) if each is not None), None)
                return None if found is None or depth > _DEEPEST else self._translated(expression(found), depth + 1)
            case ast.Call(func=ast.Name(id=function), args=[*arguments]):
                every = [self._translated(each, depth) for each in arguments]
                known = [each for each in every if each is not None]
                return _called(function, known) if len(known) == len(every) else None
            case ast.BinOp(left=left, op=operation, right=right):
                first, second = self._translated(left, depth), self._translated(right, depth)
                return _combined(first, operation, second) if first is not None and second is not None else None
            case _:
                return None

    def _variable(self, name: str, depth: int) -> ast.expr | None:
        if name in self.names:
            return ast.parse(self.names[name], mode="eval").body
        defined = self._defined(name) if depth < _DEEPEST else None
        return None if defined is None else self._translated(expression(defined), depth + 1)

    def _defined(self, name: str) -> Node | None:
        """Return the last value that a variable gets before the launch, in the same function or at file scope.

        Return None if the variable gets no value there.
        """
        found = [
            each.value
            for each in self.definitions.get(name, ())
            if each.end <= self.launch.start_byte and each.function in (self.function, None)
        ]
        return found[-1] if found else None


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
