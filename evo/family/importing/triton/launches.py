"""Reads the launches of a Triton kernel: grids, passed numbers and tensor descriptors."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from evo.errors import InvalidInput
from evo.family.source.triton.source import Kernel
from evo.space.expression import Expression

_DESCRIPTORS = ("TensorDescriptor", "from_tensor")
_CEIL_DIV = ("triton.cdiv", "tl.cdiv", "cdiv")
_WORDS = re.compile(r"[A-Za-z_]\w*")
_DEEPEST = 8
"""Maximum length of a chain of variables in which each variable is defined by the next one."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch of a kernel, such as ``kernel[grid](x, n)``.

    Attributes:
        grid: expression in the brackets.
        passed: expressions that the launch passes, by the name of the kernel's parameter.
        scope: function that contains the launch, or the whole file.
    """

    grid: ast.expr
    passed: Mapping[str, ast.expr]
    scope: ast.AST


def launches_of(kernel: Kernel, tree: ast.Module) -> list[Launch]:
    """Return the launches of a kernel in its file."""
    names = [each.name for each in kernel.parameters]
    scopes = [tree, *(each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))]
    found: dict[int, Launch] = {}
    for scope in scopes:  # an inner function comes after the function that contains it
        for each in ast.walk(scope):
            match each:
                case ast.Call(func=ast.Subscript(value=value, slice=grid)) if ast.unparse(value) == kernel.name:
                    passed = dict(zip(names, each.args, strict=False))
                    passed |= {keyword.arg: keyword.value for keyword in each.keywords if keyword.arg}
                    found[id(each)] = Launch(grid=grid, passed=passed, scope=scope)
    return list(found.values())


def _assigned_once(scope: ast.AST) -> dict[str, ast.expr]:
    """Return the values of the variables that a function assigns exactly once, by name."""
    found: dict[str, list[ast.expr]] = {}
    for each in ast.walk(scope):
        if isinstance(each, ast.Assign):
            for target in each.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(each.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def passed_number(launches: Sequence[Launch], name: str) -> int | None:
    """Return the first whole number that a launch passes for a parameter; None if no launch passes one."""
    given = (each.passed.get(name) for each in launches)
    numbers = (each.value for each in given if isinstance(each, ast.Constant))
    return next((each for each in numbers if isinstance(each, int)), None)


def expression_of(node: ast.expr, meta: str) -> str | None:
    """Convert a Python expression to the syntax of family.toml, e.g. ``meta["N"]`` to N; None if that is impossible."""
    return _text(_Names(meta).visit(_copy(node)))


def _text(node: ast.expr) -> str | None:
    try:
        return Expression.parse(ast.unparse(node), "import").text
    except InvalidInput:
        return None


def _copy(node: ast.expr) -> ast.expr:
    return ast.parse(ast.unparse(node), mode="eval").body


class _Names(ast.NodeTransformer):
    """Replaces ``meta["N"]`` with N, and ``triton.cdiv`` with ``ceil_div``."""

    def __init__(self, meta: str) -> None:
        self._meta = meta

    def visit_Subscript(self, found: ast.Subscript) -> ast.expr:
        if isinstance(found.value, ast.Name) and found.value.id == self._meta and isinstance(found.slice, ast.Constant):
            return ast.Name(id=str(found.slice.value))
        return found

    def visit_Call(self, found: ast.Call) -> ast.expr:
        self.generic_visit(found)
        if ast.unparse(found.func) in _CEIL_DIV:
            return ast.Call(func=ast.Name(id="ceil_div"), args=found.args, keywords=[])
        return found


class _HostNames(_Names):
    """Converts an expression of host code to the names of ``family.toml``.

    In addition to the changes of `_Names`, host variables are replaced with kernel parameters, formulas or new names.

    Attributes:
        made: new names, for numbers that the kernel does not receive, such as the rows in ``kernel[(x.shape[0],)](x)``.
    """

    def __init__(self, meta: str, launch: Launch, known: Collection[str]) -> None:
        super().__init__(meta)
        self._assigned, self._known, self._depth = _assigned_once(launch.scope), known, 0
        self._parameters = {
            ast.unparse(value): name
            for name, value in launch.passed.items()
            if name in known and not isinstance(value, ast.Constant)
        }
        self.made: dict[str, None] = {}

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and (name := self._parameters.get(ast.unparse(node))) is not None:
            return ast.Name(id=name)
        changed: ast.AST = super().visit(node)
        return changed

    def visit_Name(self, found: ast.Name) -> ast.expr:
        if found.id in self._known:
            return found
        value = _without_choice(self._assigned.get(found.id))
        if _is_formula(value) and self._depth < _DEEPEST:
            self._depth += 1
            inner = self.visit(_copy(value))
            self._depth -= 1
            return inner if isinstance(inner, ast.expr) else found
        return self._named(found)

    def visit_Subscript(self, found: ast.Subscript) -> ast.expr:
        changed = super().visit_Subscript(found)
        return self._named(found) if changed is found else changed

    def visit_Attribute(self, found: ast.Attribute) -> ast.expr:
        return ast.Name(id="sm_count") if found.attr == "multi_processor_count" else self._named(found)

    def visit_Call(self, found: ast.Call) -> ast.expr:
        if not _is_formula(found):
            return self._named(found)
        found.args = [each for each in map(self.visit, found.args) if isinstance(each, ast.expr)]
        name = "ceil_div" if ast.unparse(found.func) in _CEIL_DIV else ast.unparse(found.func)
        return ast.Call(func=ast.Name(id=name), args=found.args, keywords=[])

    def _named(self, found: ast.expr) -> ast.expr:
        name = re.sub(r"\W+", "_", ast.unparse(found)).strip("_")
        self.made[name] = None
        return ast.Name(id=name)


def _without_choice(node: ast.expr | None) -> ast.expr | None:
    """Return the value that applies if an optional argument is omitted: ``a`` for ``a if x is None else b``.

    Other expressions are returned unchanged.
    """
    match node:
        case ast.IfExp(test=ast.Compare(ops=[ast.Is()], comparators=[ast.Constant(value=None)]), body=body):
            return body
        case ast.IfExp(test=ast.Compare(ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]), orelse=other):
            return other
    return node


def _is_formula(node: ast.expr | None) -> TypeGuard[ast.expr]:
    """Return True for arithmetic, a number, or a call of ``cdiv``, ``min`` or ``max``."""
    match node:
        case ast.Call(func=function, keywords=[]):
            return ast.unparse(function) in (*_CEIL_DIV, "min", "max")
        case ast.BinOp() | ast.UnaryOp() | ast.Attribute(attr="multi_processor_count"):
            return True
        case ast.Constant(value=int()):
            return True
    return False


def found_grid(
    launches: Sequence[Launch], tree: ast.Module, known: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the grid of a launch, and the names in it that the kernel does not receive; both empty if unclear.

    If there are several launches, the grid with the fewest such names is returned.

    Args:
        known: parameters, tunables and derived values that a grid may use.
    """
    grids = list[tuple[tuple[str, ...], tuple[str, ...]]]()
    for launch in launches:
        for meta, extents in [*_extents(launch.grid, launch.scope)] or _extents(launch.grid, tree):
            names = _HostNames(meta, launch, known)
            changed = [names.visit(_copy(each)) for each in extents]
            found = [_text(each) for each in changed if isinstance(each, ast.expr)]
            if found and all(found):
                grids.append((tuple(each for each in found if each), tuple(names.made)))
    return min(grids, key=lambda each: len(each[1]), default=((), ()))


def _extents(node: ast.expr | None, scope: ast.AST) -> Iterator[tuple[str, list[ast.expr]]]:
    """Yield the possible grids of a launch, each as the name of a parameter and the extents.

    The grid is a tuple, a lambda, or the name of a variable or function. The extents of a lambda or function may use
    its first parameter, whose name is yielded. For a tuple, the name is empty.
    """
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            yield "", elements
        case ast.Lambda(body=ast.Tuple(elts=elements)):
            yield parameter_of(node), elements
        case ast.Name(id=name):
            for each in ast.walk(scope):
                if isinstance(each, ast.Assign) and any(ast.unparse(target) == name for target in each.targets):
                    if not isinstance(each.value, ast.Name):
                        yield from _extents(each.value, scope)
                elif isinstance(each, ast.FunctionDef) and each.name == name and each.args.args:
                    returned = [found.value for found in ast.walk(each) if isinstance(found, ast.Return)]
                    yield from (
                        (each.args.args[0].arg, found.elts) for found in returned if isinstance(found, ast.Tuple)
                    )


def parameter_of(function: ast.Lambda) -> str:
    """Return the name of the first parameter of a lambda; empty if it has none."""
    return function.args.args[0].arg if function.args.args else ""


def block_of(name: str, launches: Sequence[Launch], tree: ast.Module, known: Collection[str]) -> tuple[str, ...]:
    """Return the block shape of the tensor descriptor that the file passes for a parameter; empty if unknown.

    The shape is read from a ``pre_hook`` of the configs (``nargs["a"].block_shape = [BLOCK_M, BLOCK_K]``) if there is
    one, else from the ``TensorDescriptor`` that the launch passes.
    """
    assignments = [each for each in ast.walk(tree) if isinstance(each, ast.Assign)]
    hooked = (
        each.value
        for each in assignments
        if any(re.fullmatch(rf"\w+\['{name}'\]\.block_shape", ast.unparse(target)) for target in each.targets)
    )
    for found in (*hooked, *_described_blocks(name, launches, assignments)):
        if not isinstance(found, ast.List | ast.Tuple):
            continue
        extents = [expression_of(each, "nargs") for each in found.elts]
        named = {word for each in extents for word in _WORDS.findall(each or "?")}
        if extents and all(extents) and named <= set(known):
            return tuple(each for each in extents if each)
    return ()


def _described_blocks(name: str, launches: Sequence[Launch], assignments: Sequence[ast.Assign]) -> Iterator[ast.expr]:
    """Yield the block shapes of the tensor descriptors that launches in the file pass for this parameter."""
    for launch in launches:
        value = launch.passed.get(name)
        made = [value, *(each.value for each in assignments if _assigns(each, value))]
        for each in made:
            if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in _DESCRIPTORS:
                by_name = {keyword.arg: keyword.value for keyword in each.keywords}
                yield from (by_name[key] for key in ("block_shape",) if key in by_name)
                yield from each.args[-1:]


def _assigns(node: ast.Assign, name: ast.expr | None) -> bool:
    return isinstance(name, ast.Name) and any(
        isinstance(target, ast.Name) and target.id == name.id for target in node.targets
    )
