"""Syntax trees of C, C++ and CUDA code, parsed by tree-sitter."""

import ast
import copy
import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from evo.family.importing.types import plain_type, size_of

_LITERAL = re.compile(
    rb'\d(?:\'?[\w.])*|R"([^\s()\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\w+'
    rb"|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z))",
    re.DOTALL,
)
"""Matches comments, and the tokens (numbers, strings and words) in which no comment can begin."""
_RESTRICT = re.compile(rb"\b__restrict\b")
"""Matches a spelling of ``restrict`` that the grammar does not accept everywhere."""
_NOT_BLANK = re.compile(rb"[^\n]")
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)(?:[uUlLzZ]*|\.0*[fF]?)")
_OPERATORS = {"+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "%": ast.Mod, "<<": ast.LShift}
_CAST = re.compile(r"(?:static|reinterpret|const)_cast")
_DEEPEST = 100
"""Maximum depth of an expression that is read."""
_DEEPEST_NODE = 500
"""Maximum depth of a node that is read."""


class Code:
    """Code without comments, with its syntax tree.

    Attributes:
        root: node that contains the code.
    """

    def __init__(self, text: str) -> None:
        self.content = _LITERAL.sub(
            lambda found: _NOT_BLANK.sub(b" ", found[0]) if found["comment"] else found[0],
            text.encode("utf-8", "surrogateescape"),
        )
        self.root = Parser(_language()).parse(_RESTRICT.sub(b"restrict  ", self.content)).root_node
        self._line_ends = [each.start() for each in re.finditer(rb"\n", self.content)]
        self._nodes: dict[str, list[Node]] = {}
        self._parents: dict[int, Node] = {}  # tree-sitter needs linear time to find the parent of a node
        for node, parent in _walk(self.root):
            if parent is not None:
                self._parents[node.id] = parent
            self._nodes.setdefault(node.type, []).append(node)

    @property
    def text(self) -> str:
        """The text of the root. A whole source includes the blank lines before its first statement."""
        start = self.root.start_byte if self.root.parent else 0
        return self.content[start : self.root.end_byte].decode("utf-8", "surrogateescape")

    def line(self, position: int) -> int:
        """Return the number, from 0, of the line at a position in the code."""
        return bisect_right(self._line_ends, position - 1)

    def inside(self, node: Node) -> "Code":
        """Return the code inside a node."""
        found = copy.copy(self)
        found.root = node
        found.__dict__.pop("uses", None)
        return found

    def parent(self, node: Node) -> Node:
        """Return the parent of a node; the parent of the root is the root itself."""
        return self._parents.get(node.id, node)

    def ancestors(self, node: Node, most: int = _DEEPEST) -> Iterator[Node]:
        """Yield at most `most` ancestors of a node, the innermost first."""
        for _ in range(most):
            if (parent := self._parents.get(node.id)) is None:
                return
            yield parent
            node = parent

    def nodes(self, *kinds: str) -> list[Node]:
        """Return the nodes of the given kinds, in the order of the code; a node comes before its descendants."""
        found = list[Node]()
        for every in (self._nodes.get(kind, []) for kind in kinds):
            begin, end = (bisect_left(every, each, key=_start) for each in (self.root.start_byte, self.root.end_byte))
            found += every[begin:end]
        if len(kinds) > 1:
            found.sort(key=lambda node: (node.start_byte, -node.end_byte))
        return found

    @functools.cached_property
    def uses(self) -> Mapping[str, list[Node]]:
        """Syntax nodes of each variable, function, macro and struct member, by name. A dot precedes a member's name."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes("identifier"):
            found.setdefault(written(node), []).append(node)
        for node in self.nodes("field_identifier"):
            found.setdefault(f".{written(node)}", []).append(node)
        return found


def _start(node: Node) -> int:
    return node.start_byte


@functools.cache
def _language() -> Language:
    return Language(tree_sitter_cuda.language())


def descendants(node: Node) -> Iterator[Node]:
    """Yield a node and its descendants, in the order of the code. Keywords and deeply nested nodes are left out."""
    return (inside for inside, _ in _walk(node))


def _walk(node: Node) -> Iterator[tuple[Node, Node | None]]:
    """Yield a node and its descendants, each with its parent. The parent of the given node itself is None."""
    cursor, around = node.walk(), list[Node]()
    while True:
        if (inside := cursor.node) is not None and inside.is_named:
            yield inside, around[-1] if around else None
        if inside is not None and len(around) < _DEEPEST_NODE and cursor.goto_first_child():
            around.append(inside)
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            around.pop()


def written(node: Node | None) -> str:
    """Return the text of a node; empty for None."""
    return "" if node is None or node.text is None else node.text.decode("utf-8", "surrogateescape")


def part(node: Node, field: str) -> Node | None:
    """Return the child of a node in a field of the grammar, e.g. ``left``; None if the node has no such child."""
    return node.child_by_field_name(field)


def operator(node: Node) -> str:
    """Return the operator of an expression, such as ``+=``; empty if the node has no operator."""
    return written(part(node, "operator"))


def declared(node: Node | None) -> Node | None:
    """Return the name that a declarator declares, e.g. ``x`` in ``*x[4]``; None if there is none."""
    for _ in range(_DEEPEST):
        if node is None or node.type in ("identifier", "field_identifier", "type_identifier", "qualified_identifier"):
            return node
        inner = part(node, "declarator")
        node = inner or next((each for each in node.named_children if "declarator" in each.type or is_name(each)), None)
    return None


def parameter_list(definition: Node) -> Node | None:
    """Return the parameter list of a function definition or declaration; None for other nodes."""
    function = part(definition, "declarator")
    while function is not None and function.type != "function_declarator":
        function = part(function, "declarator")
    return None if function is None else part(function, "parameters")


def is_name(node: Node | None) -> bool:
    """Return True for the name of a variable, function or macro."""
    return node is not None and node.type == "identifier"


def called(node: Node) -> str:
    """Return the name of the called function, without namespaces and template arguments; empty for other nodes."""
    return last_name(part(node, "function"))


def last_name(node: Node | None) -> str:
    """Return the last part of a qualified name without template arguments: ``f`` for ``own::f<int>``."""
    while node is not None and (inner := part(node, "name")) is not None:
        node = inner
    return written(node)


def arguments(node: Node) -> list[Node]:
    """Return the arguments of a call."""
    given = part(node, "arguments")
    return [] if given is None else given.named_children


def groups(node: Node, code: Code) -> bool:
    """Return True if a node is brackets around a single value, as in ``(x)``, ``int i(x)`` and ``int i{x}``."""
    initial = code.parent(node).type == "init_declarator"
    kinds = ("argument_list", "initializer_list") if initial else ("parenthesized_expression",)
    return node.type in kinds and len(node.named_children) == 1


def is_cast(call: Node) -> bool:
    """Return True for calls such as ``static_cast<int>(x)`` and ``float(x)``."""
    function = part(call, "function")
    return function is not None and (function.type == "primitive_type" or _CAST.fullmatch(called(call)) is not None)


_SINGLE = frozenset({"parenthesized_expression", "argument_list", "initializer_list", "update_expression"})
"""Kinds of nodes whose value is the value of their only child."""
UNKNOWN = ast.Constant(value=...)
"""Placeholder for a part of an expression that the expressions of a family do not support."""


def expression(node: Node, depth: int = 0) -> ast.expr:  # noqa: PLR0911, PLR0912 - one case per kind of expression
    """Convert a C expression to a Python expression without casts. `UNKNOWN` replaces parts without an equivalent.

    Divisions become true divisions, although C truncates the quotients of integers.
    """
    if depth > _DEEPEST:
        return UNKNOWN
    match node.type:
        case "number_literal":
            return _number(written(node))
        case "identifier" | "type_identifier" | "primitive_type":
            return ast.Name(written(node))
        case "qualified_identifier":
            return ast.Name(last_name(node))
        case "field_expression":
            inner = part(node, "argument")
            return ast.Attribute(expression(inner, depth + 1), last_name(part(node, "field"))) if inner else UNKNOWN
        case kind if kind in _SINGLE and len(node.named_children) == 1:
            return expression(node.named_children[0], depth + 1)
        case "pointer_expression" if operator(node) == "*" and is_name(part(node, "argument")):
            return ast.Name(written(part(node, "argument")))  # a pointer to a single number
        case "cast_expression":
            inner = part(node, "value")
            return expression(inner, depth + 1) if inner else UNKNOWN
        case "sizeof_expression":
            size = size_of(plain_type(written(part(node, "type") or part(node, "value"))))
            return ast.Constant(value=size) if size else UNKNOWN
        case "call_expression":
            given = [expression(each, depth + 1) for each in arguments(node)]
            return given[0] if is_cast(node) and len(given) == 1 else ast.Call(ast.Name(called(node)), given, [])
        case "unary_expression" if operator(node) in ("-", "+"):
            inner = part(node, "argument")
            found = expression(inner, depth + 1) if inner else UNKNOWN
            return ast.UnaryOp(ast.USub(), found) if operator(node) == "-" else found
        case "binary_expression" if operator(node) in _OPERATORS:
            left, right = part(node, "left"), part(node, "right")
            if left is not None and right is not None:
                operation = _OPERATORS[operator(node)]()
                return ast.BinOp(expression(left, depth + 1), operation, expression(right, depth + 1))
        case "conditional_expression":
            return _minimum(node, depth)
    return UNKNOWN


def _minimum(node: Node, depth: int) -> ast.expr:
    """Return ``min(a, b)`` for ``a < b ? a : b`` and equivalent expressions; `UNKNOWN` for other conditions."""
    condition, *values = (part(node, name) for name in ("condition", "consequence", "alternative"))
    while condition is not None and condition.type == "parenthesized_expression":
        condition = condition.named_children[0]
    if condition is None or (sign := operator(condition)) not in ("<", "<=", ">", ">="):
        return UNKNOWN
    sides = [part(condition, name) for name in (("left", "right") if "<" in sign else ("right", "left"))]
    compared, chosen = ([expression(each, depth + 1) if each else UNKNOWN for each in pair] for pair in (sides, values))
    same = [*map(ast.unparse, compared)] == [*map(ast.unparse, chosen)]
    return ast.Call(ast.Name("min"), chosen, []) if same else UNKNOWN


def _number(text: str) -> ast.expr:
    found = _NUMBER.fullmatch(text.replace("'", ""))
    return UNKNOWN if found is None or len(found[1]) > _DEEPEST else ast.Constant(value=_value(found[1]))


def _value(digits: str) -> int:
    octal = digits.startswith("0") and digits.isdigit() and not set(digits) & set("89")
    return int(digits, 8) if octal else int(digits) if digits.isdigit() else int(digits, 0)


def names_in(node: Node) -> Sequence[str]:
    """Return the names of variables, functions and macros inside a node."""
    return [written(each) for each in descendants(node) if each.type == "identifier"]
