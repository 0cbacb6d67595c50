"""Configs of ``@triton.autotune``, evaluated from the syntax tree without running the file.

Supported expressions are lists and comprehensions of ``triton.Config``, sums of such lists, variables and calls of
functions (without arguments) in the same file that give such a list, and ``list(…)`` and ``filter(…)`` of such a list.
Conditions of filters and comprehensions are not applied.
"""

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from evo.trial import Value

OPTIONS: Mapping[str, int] = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, "maxnreg": 0}
"""Options of a ``triton.Config`` with their defaults. 0 means that the option is not set."""


MOST_BITS = 30
"""Largest exponent, and largest shift distance, that are evaluated."""

_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


@dataclass(frozen=True, kw_only=True)
class Configs:
    """Configs of a kernel's ``@triton.autotune``.

    Attributes:
        values: the configs, each with a value for every tunable. Configs that lack a tunable are left out. A launch
            option is included if at least one config sets it.
        unread: expressions that are not supported or were not applied, as text.
    """

    values: tuple[Mapping[str, Value], ...]
    unread: tuple[str, ...] = ()


def read_configs(node: ast.expr, tree: ast.Module) -> Configs:
    """Evaluate an expression that creates configs."""
    reader = _Reader(tree)
    found = [each for each in reader.configs(node, {}) if each]
    stated = [name for name in OPTIONS if any(name in each for each in found)]
    names = dict.fromkeys([*chain.from_iterable(found), *stated])
    complete = [{name: each.get(name, OPTIONS.get(name)) for name in names} for each in found]
    configs = [{name: value for name, value in each.items() if value is not None} for each in complete]
    known = [each for each in configs if len(each) == len(names)]
    return Configs(values=tuple(known), unread=tuple(dict.fromkeys(reader.unread)))


class _Reader:
    """Evaluates the expressions in a Triton source that create `triton.Config` objects."""

    def __init__(self, tree: ast.Module) -> None:
        self.unread: list[str] = []
        self._functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
        self._values: dict[str, ast.expr] = {}
        for each in ast.walk(ast.Module(body=list(_outside_functions(tree)), type_ignores=[])):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                self._record(each.targets[0].id, each.value)

    def _record(self, name: str, value: ast.expr) -> None:
        """Record the value of a name. If the name is assigned several times, keep the longest expression.

        Shorter expressions are usually for other hardware or tests.
        """
        if name not in self._values or len(ast.unparse(value)) > len(ast.unparse(self._values[name])):
            self._values[name] = value

    def configs(self, node: ast.expr, scope: Mapping[str, Value]) -> Iterator[dict[str, Value]]:
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                for each in elements:
                    yield from self.configs(each, scope)
            case ast.Starred(value=value):
                yield from self.configs(value, scope)
            case (
                ast.ListComp(elt=element, generators=generators) | ast.GeneratorExp(elt=element, generators=generators)
            ):
                for inner in self._scopes(generators, dict(scope)):
                    yield from self.configs(element, inner)
            case ast.Call(func=ast.Name(id="list"), args=[inner_list]):
                yield from self.configs(inner_list, scope)
            case ast.Call(func=ast.Name(id="filter"), args=[condition, rest]):
                self.unread.append(f"filter({ast.unparse(condition)}, …)")
                yield from self.configs(rest, scope)
            case ast.Call() if _last(node.func) == "Config":
                yield self._config(node, scope)
            case ast.Call(func=ast.Name(id=name), args=[]) if name in self._functions:
                yield from self._returned_configs(self._functions[name])
            case ast.Name(id=name) if name in self._values:
                yield from self.configs(self._values[name], scope)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                yield from self.configs(left, scope)
                yield from self.configs(right, scope)
            case _:
                self.unread.append(ast.unparse(node))

    def _returned_configs(self, function: ast.FunctionDef) -> Iterator[dict[str, Value]]:
        """Yield the configs in a function's first return statement.

        In files that support GPUs of several vendors, the first return statement is usually for CUDA.
        """
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                self._record(each.targets[0].id, each.value)
        returns = [each.value for each in ast.walk(function) if isinstance(each, ast.Return) and each.value]
        if returns:
            yield from self.configs(min(returns, key=lambda each: each.lineno), {})

    def _scopes(self, generators: list[ast.comprehension], scope: dict[str, Value]) -> Iterator[dict[str, Value]]:
        if not generators:
            yield scope
            return
        first, *rest = generators
        for condition in first.ifs:
            self.unread.append(f"if {ast.unparse(condition)}")
        for value in self._values_of(first.iter, scope):
            if isinstance(first.target, ast.Name) and not isinstance(value, tuple):
                yield from self._scopes(rest, {**scope, first.target.id: value})
            elif isinstance(first.target, ast.Tuple) and isinstance(value, tuple):
                names = [each.id for each in first.target.elts if isinstance(each, ast.Name)]
                known = {name: each for name, each in zip(names, value, strict=False) if each is not None}
                yield from self._scopes(rest, {**scope, **known})

    def _values_of(self, node: ast.expr, scope: Mapping[str, Value]) -> Sequence[Value | tuple[Value | None, ...]]:
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) if all(isinstance(e, ast.Tuple) for e in elements):
                return [
                    tuple(self._value(e, scope) for e in each.elts) for each in elements if isinstance(each, ast.Tuple)
                ]
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return [value for each in elements if (value := self._value(each, scope)) is not None]
            case ast.Name(id=name) if name in self._values:
                return self._values_of(self._values[name], scope)
            case ast.Call(func=ast.Name(id="range"), args=arguments):
                bounds = [self._value(each, scope) for each in arguments]
                integers = [each for each in bounds if isinstance(each, int)]
                return (
                    list(range(*integers))
                    if len(integers) == len(bounds) <= 3 and max(integers, default=0) <= 4096
                    else []
                )
        self.unread.append(ast.unparse(node))
        return []

    def _config(self, call: ast.Call, scope: Mapping[str, Value]) -> dict[str, Value]:
        found: dict[str, Value] = {}
        arguments = call.args[0] if call.args else next((k.value for k in call.keywords if k.arg == "kwargs"), None)
        for name, node in _pairs(arguments):
            value = self._value(node, scope)
            if value is None:
                self.unread.append(ast.unparse(node))
                return {}
            found[name] = value
        for each in call.keywords:
            value = self._value(each.value, scope)
            if each.arg is not None and each.arg in OPTIONS and value is not None:
                found[each.arg] = value
        return found

    def _value(self, node: ast.expr, scope: Mapping[str, Value]) -> Value | None:
        """Return the value of a literal, a name, or arithmetic with whole numbers; None if it is unknown."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return value
            case ast.Name(id=name) if name in scope:
                return scope[name]
            case ast.Name(id=name) if name in self._values and not isinstance(self._values[name], ast.Name):
                return self._value(self._values[name], scope)
            case ast.BinOp(left=left, op=sign, right=right):
                return _arithmetic(sign, self._value(left, scope), self._value(right, scope))
        return None


def _arithmetic(sign: ast.operator, left: object, right: object) -> int | None:
    if not (isinstance(left, int) and isinstance(right, int)):
        return None
    done = _OPERATORS.get(type(sign))
    limited = 0 <= right <= MOST_BITS or isinstance(sign, ast.Add | ast.Mult | ast.FloorDiv)
    return done(left, right) if done and limited and not (isinstance(sign, ast.FloorDiv) and right == 0) else None


def _pairs(node: ast.expr | None) -> list[tuple[str, ast.expr]]:
    match node:
        case ast.Dict(keys=keys, values=values):
            found = zip(keys, values, strict=True)
            return [(str(key.value), value) for key, value in found if isinstance(key, ast.Constant)]
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            return [(each.arg, each.value) for each in keywords if each.arg]
    return []


def _outside_functions(tree: ast.Module) -> Iterator[ast.stmt]:
    return (each for each in tree.body if not isinstance(each, ast.FunctionDef | ast.ClassDef))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
