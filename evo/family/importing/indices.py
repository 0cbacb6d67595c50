"""Finds the shapes of arrays from their indices, such as ``x[row * cols + column]``."""

import ast
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from evo.family.importing.braces import closed, parts
from evo.family.importing.launches import parsed, without_casts

PITCH = re.compile(r"(?i)(?<!\w)(?:ld[a-z]?|\w*stride\w*|\w*pitch\w*)(?!\w)")
"""Matches the name of the distance between two rows of an array."""

_ASSIGNMENT = re.compile(r"(?<![.>\w])(\w+)\s*(?<![<>=!+*/%&|^-])=(?!=)(?=([^;{}]{0,300}))")
_CHANGE = re.compile(r"(?:\+\+|--)\s*(\w+)|\b(\w+)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)=)")
_FALL = re.compile(r"--\s*(\w+)|\b(\w+)\s*(?:--|-=)")
_BETWEEN = re.compile(r"[;{}?:]|&&|\|\||(?<![<>=!+*/%&|^-])=(?!=)")
_COMPARED = re.compile(r"(?<![<>-])(?:[<>]=?|!=)(?![<>=])")
_NAME = re.compile(r"(?<![.>\w])[A-Za-z_]\w*")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MINIMUM = re.compile(r"(?i)\w*min\w*")
_ELEMENT = re.compile(r"(?:__ld|__st|_*atomic|_mm|vld|vst)\w*\s*\(\s*$")
"""Matches a call, up to its first argument, of a function that accesses the elements directly at a pointer."""
_CHECK = re.compile(r"(?:\b(?:if|while)\s*\(|!|&&|\|\|)\s*$")
"""Matches the text before a pointer that is compared with the null pointer."""
_ALIAS = re.compile(r"\b(\w+)\s*=\s*$")
_DEREFERENCED = re.compile(r"(?<=[-+(*/<>=,;])(\s{0,9})\*\s{0,9}(?=[A-Za-z_])")
"""Matches the ``*`` before a pointer to a single number."""
_MOST = 500
"""Maximum number of uses of an array that are read."""
_LONGEST = 300
"""Number of characters of the longest condition or index that is read."""
_MOST_VARIABLES = 50
"""Maximum number of variables that are examined for the limit of one variable."""
_MOST_PRODUCTS = 100
"""Maximum number of products in an index."""
_MOST_FACTORS = 10
"""Maximum number of factors of a product in an index."""
_DEEPEST = 6
"""Maximum number of variables that are defined by one another."""
_UNCLEAR = "?"
"""Stands for an extent that is not a single problem field."""

_Stride = tuple[int, tuple[str, ...]]
"""Distance between neighbouring elements of an axis: the product of a number and problem fields."""
_Sum = dict[tuple[str, ...], int]
"""Sum of products: the factor of each product of names. A dot begins the names of variables, but not of fields."""
_HARDWARE = ("blockIdx.", "threadIdx.")
"""Beginnings of variables whose limits are extents of the launch."""
_UNKNOWN = (f".{_UNCLEAR}",)
"""Product that stands for a part of an index that is not a sum of products, such as ``i / 2`` or ``order[i]``."""


class Indices:
    """The indices of the arrays in the body of a function.

    Args:
        fields: names of the problem fields that are extents.
        passed: problem field whose value a parameter receives, by parameter.
    """

    def __init__(self, body: str, fields: Sequence[str], passed: Mapping[str, str]) -> None:
        self._body = _DEREFERENCED.sub("", body.replace("std::", ""))
        self._fields, self._passed = fields, passed
        self._uses: dict[str, list[int]] = {}
        for each in _NAME.finditer(self._body):
            self._uses.setdefault(each[0], []).append(each.start())
        self._meanings: dict[str, _Sum] = {}
        self._known: dict[str, set[str]] = {}
        self._starts: dict[str, list[str]] = {}
        for each in _ASSIGNMENT.finditer(self._body):
            self._starts.setdefault(each[1], []).append(next(parts(closed(each[2]))))
        self._changed = {each[1] or each[2] for each in _CHANGE.finditer(self._body)}
        self._falling = {each[1] or each[2] for each in _FALL.finditer(self._body)}
        self._limits: dict[str, set[str]] = {}
        for chunk in _BETWEEN.split(self._body):
            if len(chunk) <= _LONGEST:
                self._read_comparison(without_casts(chunk))
        for name, texts in self._starts.items():
            if len(texts) == 1 and (divisor := re.search(r"%\s*(\w+)\s*$", texts[0])) and name not in self._changed:
                self._limits.setdefault(name, {divisor[1]})

    def shape(self, name: str, guess: tuple[str, ...]) -> tuple[str, ...]:
        """Return the shape of an array.

        The multiplier of a variable is the product of all axes inside the variable's axis. The variables with the
        largest multiplier count to the extent of the outermost axis.

        Args:
            guess: shape if the indices do not determine it. If the multipliers show the inner axes, they become the
                last axes of the guess.
        """
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
                return (outer, *reversed(axes))
        known = [each for each in reversed(axes) if _WORD.fullmatch(each)]
        if not set(known) <= set(guess):
            guess = tuple(self._fields)
        return (*(each for each in guess if each not in known), *known)

    def _fits(self, groups: Mapping[_Stride, set[str]], strides: Sequence[_Stride], axes: Sequence[str]) -> bool:
        """Return True if all variables have limits, and those of inner axes stay inside their axes."""
        variables = {each for names in groups.values() for each in names}
        if any(not each.startswith(_HARDWARE) for each in variables - self._limits.keys() - self._falling):
            return False
        for stride, axis in zip(strides, axes, strict=False):
            limits = {each for name in groups.get(stride, ()) for each in self._limiting(name)} - {_UNCLEAR}
            if limits - {axis} and _WORD.fullmatch(axis) and not PITCH.fullmatch(axis):
                return False
        return True

    def _outer(self, variables: set[str]) -> str:
        """Return the extent of the axis of some variables; empty if it is unclear."""
        limits = {each for name in variables for each in self._limits.get(name, ())}
        if len(limits) == 1 and (number := next(iter(limits)).strip()).isdigit():
            return number
        products = [self._sum(each) for each in limits] if len(limits) == 1 else []
        if products and products[0] is not None and list(products[0].values()) == [1]:
            (names,) = products[0]
            if len(set(names)) > 1 and set(names) < set(self._fields):
                return " * ".join(names)
        extents = {each for name in variables for each in self._limiting(name)}
        return extents.pop() if len(extents) == 1 and _UNCLEAR not in extents else ""

    def _limiting(self, name: str) -> set[str]:
        """Return the problem fields that limit a variable; with `_UNCLEAR` if their value is not the limit."""
        if name not in self._known:
            self._known[name] = self._extents(name, set())
        return self._known[name]

    def _extents(self, name: str, seen: set[str]) -> set[str]:
        """Return the fields that limit a variable, except through the variables that are already examined."""
        if len(seen) > _MOST_VARIABLES:
            return {_UNCLEAR}
        seen.add(name)
        texts = self._limits.get(name) or set(self._starts.get(name, []) if self._follows(name) else [])
        return {each for text in texts for each in self._extents_in(text, seen)}

    def _extents_in(self, text: str, seen: set[str]) -> set[str]:
        found = {_UNCLEAR} if text == _UNCLEAR else set[str]()
        for each in _WORD.finditer(text):
            field = self._passed.get(each[0], each[0])
            if field in self._fields:
                found.add(field)
            elif text[each.end() :].lstrip().startswith("("):
                found |= set() if _MINIMUM.fullmatch(each[0]) else {_UNCLEAR}
            elif each[0] not in seen:
                found |= self._extents(each[0], seen)
        return found | {_UNCLEAR} if found and re.search(r"[*/%[]", text) else found

    def _follows(self, name: str) -> bool:
        """Return True if a variable is never above the value that is assigned to it."""
        return len(self._starts.get(name, ())) == 1 and (name in self._falling or name not in self._changed)

    def _read_comparison(self, text: str) -> None:
        compared = list(_COMPARED.finditer(text))
        if len(compared) != 1:
            return
        left, right = _opened(text[: compared[0].start()]), next(parts(closed(text[compared[0].end() :])))
        sign = compared[0][0]
        lower, upper = (right, left) if sign in ("<", "<=", "!=") else (left, right)
        if sign != "!=" or _WORD.search(lower):
            self._limit(upper, lower)
        words = _WORD.findall(upper)
        if words and all(self._passed.get(each, each) in self._fields for each in words):
            self._limit(lower, upper)

    def _limit(self, text: str, limit: str) -> None:
        """Record a limit of the variables in a sum; an unclear limit for those in a product."""
        if re.search(r"\w\s*\(", text) or not re.fullmatch(r"[\w\s+()*/-]+", text):
            return
        for each in _WORD.findall(text):
            self._limits.setdefault(each, set()).add(_UNCLEAR if re.search(r"[*/]", text) else limit)

    def _sums(self, name: str, depth: int) -> tuple[list[_Sum], bool]:
        """Return the indices of an array that can be read, and True if these are all its indices."""
        uses = self._uses.get(name, [])
        sums, certain = list[_Sum](), depth <= _DEEPEST and len(uses) <= _MOST
        for start in uses if certain else ():
            end = start + len(name)
            text, is_element = self._index(end)
            before, after = self._body[max(0, start - 100) : start], self._body[end : end + _LONGEST]
            if is_element and not re.search(r"(?<!&)&\s*$", before):
                inner, complete = [_Sum()], True
            elif alias := _ALIAS.search(before.rstrip().removesuffix("&")):
                inner, complete = self._sums(alias[1], depth + 1) if self._is_alias(alias[1]) else ([_Sum()], False)
            elif depth and re.match(r"\s*=(?!=)", after):
                continue  # the definition of the alias
            elif _CHECK.search(before) and re.match(r"\s*(?:[)?&|]|[!=]=)", after):
                continue
            else:
                inner = [_Sum()]
                complete = (
                    re.search(r"\*\s*\($", before) is not None or _ELEMENT.search(before.rstrip(" &")) is not None
                )
            base = self._sum(text) if text else _Sum()
            certain = certain and complete and base is not None
            sums += [_added(base, each, 1) for each in inner if base is not None]
        return sums, certain

    def _index(self, end: int) -> tuple[str, bool]:
        """Return the text of the index after a name, and True if it is in brackets and not added to a pointer."""
        following = self._body[end : end + _LONGEST].lstrip()
        if following.startswith("["):
            inside = closed(following[1:], "[]")
            return inside if len(inside) < len(following) - 1 else _UNCLEAR, True
        if following.startswith("+") and not following.startswith(("++", "+=")):
            return next(parts(closed(following[1:].partition(";")[0]))), False
        return "", False

    def _is_alias(self, name: str) -> bool:
        return len(self._starts.get(name, ())) == 1 and name not in self._changed

    def _sum(self, text: str) -> _Sum | None:
        """Return an index in C as a sum of products; None if it is not one."""
        tree = parsed(text)
        return None if tree is None else self._expanded(tree, 0)

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
        """Return a field, a variable with a limit, or the only value that is assigned to another variable."""
        field = self._passed.get(name, name)
        if field in self._fields:
            return {(field,): 1}
        starts = self._starts.get(name, ())
        if name in self._limits or name in self._changed or len(starts) != 1 or depth > _DEEPEST:
            return {(f".{name}",): 1}
        if name not in self._meanings:
            tree = parsed(starts[0])
            self._meanings[name] = {(f".{name}",): 1} if tree is None else self._expanded(tree, depth + 1)
        return self._meanings[name]


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
    """Return the strides of the axes, the innermost first, each a multiple of the one before; empty if impossible.

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


def _opened(text: str) -> str:
    """Return the text after the last unmatched opening parenthesis, and after the last comma."""
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth < 0 or (text[place] == "," and not depth):
            return text[place + 1 :]
    return text
