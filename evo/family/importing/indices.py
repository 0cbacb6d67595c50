"""Finds the shapes of arrays from their indices, such as ``x[row * cols + column]``."""

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tree_sitter import Node

from evo.family.importing.syntax import (
    UNKNOWN,
    Code,
    called,
    declared,
    expression,
    groups,
    operator,
    part,
    written,
)

PITCH = re.compile(r"(?i)(?<!\w)(?:ld[a-z]?|\w*stride\w*|\w*pitch\w*)(?!\w)")
"""Matches the name of the distance between two rows of an array."""

_WORD = re.compile(r"[A-Za-z_]\w*")
_MINIMUM = re.compile(r"(?i)\w*min\w*")
_ELEMENT = re.compile(r"(?:__ld|__st|_*atomic|_mm|vld|vst)\w*")
"""Matches the name of a function that accesses only the elements to which a pointer points."""
_CHECKS = frozenset({"condition_clause", "unary_expression", "conditional_expression"})
"""Nodes in which a pointer is only compared with the null pointer."""
_COMPARED = {"<": True, "<=": True, "!=": True, ">": False, ">=": False}
"""Comparison operators: True if the left side is smaller when the comparison is true. For ``!=``, this is assumed."""
_MOST = 500
"""Maximum number of uses of an array that are examined."""
_MOST_VARIABLES = 50
"""Maximum number of variables that are examined for the limit of one variable."""
_MOST_PRODUCTS = 100
"""Maximum number of products in an index."""
_MOST_FACTORS = 10
"""Maximum number of factors of a product in an index."""
_DEEPEST = 6
"""Maximum length of a chain of variables in which each variable is defined by the next one."""
_UNCLEAR = "?"
"""Placeholder for an extent that is not a single problem field."""

_Stride = tuple[int, tuple[str, ...]]
"""Distance between neighbouring elements along an axis: the product of a number and problem fields."""
_Sum = dict[tuple[str, ...], int]
"""Sum of products: the numeric factor of each product of names. Names of variables begin with a dot."""
_HARDWARE = ("blockIdx.", "threadIdx.")
"""Prefixes of variables whose upper limits are the extents of the launch."""
_UNKNOWN = (f".{_UNCLEAR}",)
"""Placeholder for a part of an index that is not a sum of products, such as ``i / 2`` or ``order[i]``."""


class Indices:
    """Indices of the arrays in the body of a function, and the array shapes that follow from them.

    Args:
        fields: names of the problem fields that are extents.
        passed: problem field whose value a parameter receives, by parameter.
        fixed: other problem fields. Such a field is an extent only of arrays whose indices contain it.
    """

    def __init__(self, body: Code, fields: Sequence[str], passed: Mapping[str, str], fixed: Sequence[str] = ()) -> None:
        self._usual, self._fields, self._passed = tuple(fields), (*fields, *fixed), passed
        self._body, self._uses = body, body.uses
        self._meanings: dict[str, _Sum] = {}
        self._known: dict[str, set[str]] = {}
        self._starts: dict[str, list[Node]] = {}
        self._changed, self._falling = set[str](), set[str]()
        for each in body.nodes("init_declarator", "assignment_expression", "update_expression"):
            self._read_assignment(each)
        self._limits: dict[str, dict[str, ast.expr]] = {}
        for each in body.nodes("binary_expression"):
            if operator(each) in _COMPARED:
                self._read_comparison(each)
        for name, values in self._starts.items():
            divisor = part(values[0], "right") if operator(values[0]) == "%" else None
            if len(values) == 1 and divisor is not None and name not in self._changed:
                self._limits.setdefault(name, {written(divisor): expression(divisor)})

    def _read_assignment(self, node: Node) -> None:
        target = part(node, "declarator") or part(node, "left") or part(node, "argument")
        name, value = written(declared(target)), part(node, "value") or part(node, "right")
        if target is None or target.type in ("subscript_expression", "field_expression", "pointer_expression"):
            return
        if value is not None and operator(node) in ("", "="):
            self._starts.setdefault(name, []).append(value)
            return
        self._changed.add(name)
        if operator(node) in ("--", "-="):
            self._falling.add(name)

    def certain_shape(self, name: str) -> tuple[str, ...]:
        """Return the shape of an array; empty if the indices do not determine it.

        In an index such as ``row * cols + column``, each variable is multiplied by the extents of the axes inside its
        own axis. The multipliers (here ``cols`` and 1) therefore determine the inner extents (``cols``). The outermost
        extent is the limit of the variables with the largest multiplier (``row``).
        """
        return self._shape(name)[0]

    def shape(self, name: str, guess: tuple[str, ...]) -> tuple[str, ...]:
        """Return the shape of an array.

        Args:
            guess: shape if the indices do not determine it. If the indices determine only the inner extents, these
                become the last extents of the guess.
        """
        shape, axes = self._shape(name)
        if shape:
            return shape
        known = [each for each in reversed(axes) if _WORD.fullmatch(each)]
        if not set(known) <= set(guess):
            guess = self._usual
        return (*(each for each in guess if each not in known), *known)

    def _shape(self, name: str) -> tuple[tuple[str, ...], list[str]]:
        """Return the shape of an array (empty if uncertain), and the extents of its inner axes, innermost first."""
        sums, certain = self._sums(name, 0)
        groups: dict[_Stride, set[str]] = {}
        for product, factor in (item for each in sums for item in each.items()):
            variables = [each for each in product if each.startswith(".")]
            fields = tuple(each for each in product if not each.startswith("."))
            if len(variables) == 1 and factor > 0:
                groups.setdefault((factor, fields), set()).add(variables[0][1:])
            else:
                certain = certain and not product
        strides = _chain(groups)
        axes = [_quotient(*pair) for pair in pairwise(strides)]
        if certain and groups and strides and self._fits(groups, strides, axes):
            outer = self._outer(groups.get(strides[-1], set()))
            if outer and (axes or not outer.isdigit()):
                return (outer, *reversed(axes)), axes
        return (), axes

    def _fits(self, groups: Mapping[_Stride, set[str]], strides: Sequence[_Stride], axes: Sequence[str]) -> bool:
        """Return True if all variables have limits, and the variables of inner axes stay inside their axes."""
        variables = {each for names in groups.values() for each in names}
        if any(not each.startswith(_HARDWARE) for each in variables - self._limits.keys() - self._falling):
            return False
        for stride, axis in zip(strides, axes, strict=False):
            limits = {each for name in groups.get(stride, ()) for each in self._limiting(name)} - {_UNCLEAR}
            if limits - {axis} and _WORD.fullmatch(axis) and not PITCH.fullmatch(axis):
                return False
        return True

    def _outer(self, variables: set[str]) -> str:
        """Return the extent of the axis that the variables index; empty if it is unclear."""
        limits = {text: value for name in variables for text, value in self._limits.get(name, {}).items()}
        for text, value in limits.items() if len(limits) == 1 else ():
            if text.isdigit():
                return text
            ((names, factor), *others) = self._expanded(value, 0).items() or [((), 0)]
            if factor == 1 and not others and len(set(names)) > 1 and set(names) < set(self._fields):
                return " * ".join(names)
        extents = {each for name in variables for each in self._limiting(name)}
        return extents.pop() if len(extents) == 1 and _UNCLEAR not in extents else ""

    def _limiting(self, name: str) -> set[str]:
        """Return the problem fields that limit a variable, plus `_UNCLEAR` if the limit scales a field (``n / 2``)."""
        if name not in self._known:
            self._known[name] = self._extents(name, set())
        return self._known[name]

    def _extents(self, name: str, seen: set[str]) -> set[str]:
        """Return the problem fields that limit a variable. Variables in `seen` are not examined again."""
        if len(seen) > _MOST_VARIABLES:
            return {_UNCLEAR}
        seen.add(name)
        values = list(self._limits.get(name, {}).values())
        if not values and self._follows(name):
            values = [expression(each) for each in self._starts[name]]
        return {each for value in values for each in self._extents_in(value, seen)}

    def _extents_in(self, value: ast.expr, seen: set[str]) -> set[str]:
        found, clear = set[str](), True
        for each in ast.walk(value):
            match each:
                case ast.Call(func=ast.Name(id=name)):
                    clear = clear and _MINIMUM.fullmatch(name) is not None
                case ast.Name(id=name) if self._passed.get(name, name) in self._fields:
                    found.add(self._passed.get(name, name))
                case ast.Name(id=name) if name not in seen:
                    found |= self._extents(name, seen)
                case ast.BinOp(op=ast.Add() | ast.Sub()) | ast.UnaryOp() | ast.Attribute() | ast.Constant(value=int()):
                    pass
                case ast.BinOp() | ast.Constant():
                    clear = False
        return found if clear or not found else found | {_UNCLEAR}

    def _follows(self, name: str) -> bool:
        """Return True if a variable never exceeds its initial value."""
        return len(self._starts.get(name, ())) == 1 and (name in self._falling or name not in self._changed)

    def _read_comparison(self, node: Node) -> None:
        left, right = part(node, "left"), part(node, "right")
        if left is None or right is None:
            return
        small, large = map(expression, (left, right) if _COMPARED[operator(node)] else (right, left))
        if operator(node) != "!=" or _names(large):
            self._limit(small, large)
        if _names(small) and all(self._passed.get(each, each) in self._fields for each in _names(small)):
            self._limit(large, small)

    def _limit(self, value: ast.expr, limit: ast.expr) -> None:
        """Record `limit` as the limit of each variable in `value`, or as unclear if `value` is a product or a quotient.

        If `value` contains a call, or a member such as ``threadIdx.x``, nothing is recorded.
        """
        inside = list(ast.walk(value))
        if any(isinstance(each, ast.Call | ast.Attribute) or each is UNKNOWN for each in inside):
            return
        if any(isinstance(each, ast.Mult | ast.Div | ast.Mod | ast.LShift) for each in inside):
            limit = UNKNOWN
        for each in _names(value):
            self._limits.setdefault(each, {})[_UNCLEAR if limit is UNKNOWN else ast.unparse(limit)] = limit

    def _sums(self, name: str, depth: int) -> tuple[list[_Sum], bool]:
        """Return the indices of all uses of an array, and True if the list is complete."""
        uses = self._uses.get(name, [])
        sums, certain = list[_Sum](), depth <= _DEEPEST and len(uses) <= _MOST
        for use in uses if certain else ():
            found, complete = self._use(use, depth)
            sums += found
            certain = certain and complete
        return sums, certain

    def _use(self, node: Node, depth: int) -> tuple[list[_Sum], bool]:
        """Return the indices that one use of a pointer accesses, and True if the list is complete.

        A use such as ``p[i]`` has one index. If the use assigns the pointer to another variable, the list has the
        indices of that variable's uses. The list is incomplete, for example, if the pointer is passed to an unknown
        function.
        """
        base, is_element = _Sum(), False
        for around in self._body.ancestors(node):
            match around.type:
                case "subscript_expression" if part(around, "argument") == node and not is_element:
                    index = part(around, "indices")
                    base = _added(
                        base,
                        self._sum(index.named_children[-1]) if index and index.named_children else {_UNKNOWN: 1},
                        1,
                    )
                    is_element = True
                case "binary_expression" if operator(around) in ("+", "-") and not is_element:
                    other = part(around, "left")
                    other = part(around, "right") if other == node else other
                    sign = -1 if operator(around) == "-" else 1
                    base = _added(base, self._sum(other) if other else {_UNKNOWN: 1}, sign)
                case "pointer_expression" if is_element is (operator(around) == "&"):
                    is_element = not is_element
                case _ if not groups(around, self._body):
                    return ([base], True) if is_element else self._pointer(node, around, base, depth)
            node = around
        return [base], False

    def _pointer(self, node: Node, around: Node, base: _Sum, depth: int) -> tuple[list[_Sum], bool]:
        """Return the indices for an expression that is a pointer, such as ``p + i``, and True if the list is complete.

        Args:
            node: the expression.
            around: the node that contains the expression, such as an assignment or a call.
            base: the sum that the expression adds to the pointer.
        """
        match around.type:
            case "init_declarator" | "assignment_expression":
                target = part(around, "declarator") or part(around, "left")
                alias = written(declared(target))
                if target == node:
                    return [], depth > 0
                inner, complete = self._sums(alias, depth + 1) if self._is_alias(alias) else ([_Sum()], False)
                return [_added(base, each, 1) for each in inner], complete
            case "argument_list":
                return [base], _ELEMENT.fullmatch(called(self._body.parent(around))) is not None
            case "binary_expression" if not base and operator(around) in ("&&", "||", "==", "!="):
                return [], True
            case kind if (kind in _CHECKS and not base) or kind.endswith("declarator"):
                return [], kind in _CHECKS or depth > 0
        return [base], False

    def _is_alias(self, name: str) -> bool:
        return len(self._starts.get(name, ())) == 1 and name not in self._changed

    def _sum(self, node: Node) -> _Sum:
        """Return an index in C as a sum of products."""
        return self._expanded(expression(node), 0)

    def _expanded(self, node: ast.expr, depth: int) -> _Sum:  # noqa: PLR0911 - one return per kind of expression
        match node:
            case ast.Constant(value=int(value)):
                return {(): value}
            case ast.Name(id=name):
                return self._meaning(name, depth)
            case ast.Attribute(value=ast.Name(id="blockIdx" | "threadIdx" as name), attr=axis):
                return {(f".{name}.{axis}",): 1}
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _multiplied(self._expanded(operand, depth), {(): -1})
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as sign, right=right):
                first, second = self._expanded(left, depth), self._expanded(right, depth)
                if isinstance(sign, ast.Mult):
                    return _multiplied(first, second)
                return _added(first, second, 1 if isinstance(sign, ast.Add) else -1)
        return {_UNKNOWN: 1}

    def _meaning(self, name: str, depth: int) -> _Sum:
        """Return a name as a sum. A variable that is assigned only once and has no limit is replaced with its value."""
        field = self._passed.get(name, name)
        if field in self._fields:
            return {(field,): 1}
        starts = self._starts.get(name, ())
        if name in self._limits or name in self._changed or len(starts) != 1 or depth > _DEEPEST:
            return {(f".{name}",): 1}
        if name not in self._meanings:
            self._meanings[name] = self._expanded(expression(starts[0]), depth + 1)
        return self._meanings[name]


def _names(value: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}


def _added(first: _Sum, second: _Sum, sign: int) -> _Sum:
    total = {each: first.get(each, 0) + sign * second.get(each, 0) for each in {**first, **second}}
    return {each: factor for each, factor in total.items() if factor}


def _multiplied(first: _Sum, second: _Sum) -> _Sum:
    total = _Sum()
    if len(first) * len(second) > _MOST_PRODUCTS:
        return {_UNKNOWN: 1}
    if max(map(len, first), default=0) + max(map(len, second), default=0) > _MOST_FACTORS:
        return {_UNKNOWN: 1}
    for left, factor in first.items():
        for right, other in second.items():
            total = _added(total, {tuple(sorted((*left, *right))): factor * other}, 1)
    return total


def _chain(strides: Mapping[_Stride, object]) -> list[_Stride]:
    """Return the strides of the axes, innermost first, each a multiple of the previous one; empty if there are none.

    A number that does not divide the next stride is a step inside an axis, e.g. 4 in ``i * n + 4 * j``.
    """
    chain: list[_Stride] = [(1, ())]
    for each in sorted({*strides} - {(1, ())}, key=lambda stride: (len(stride[1]), stride)):
        while not _quotient(chain[-1], each) and chain[-1][0] > 1:
            chain.pop()
        if not _quotient(chain[-1], each):
            return []
        chain.append(each)
    return chain


def _quotient(inner: _Stride, outer: _Stride) -> str:
    """Return the extent of the axis between two strides; empty if `outer` is not a multiple of `inner`."""
    left = list(outer[1])
    for each in inner[1]:
        if each not in left:
            return ""
        left.remove(each)
    factor, rest = divmod(outer[0], inner[0])
    return "" if rest else " * ".join([str(factor)] * (factor > 1) + left)
