"""Checks the inputs that a reference.py makes, from its text, before anything runs."""

import ast
from collections.abc import Iterator, Sequence

from evo.errors import InvalidInput
from evo.family.argument import DRAWN, ROLES, Argument

_FUNCTION = "inputs"


def require_inputs(arguments: Sequence[Argument], source: bytes, *, spec: str, file: str) -> None:
    """Refuse an argument that `inputs()` never makes.

    Args:
        source: the text of reference.py; if it does not determine the inputs, nothing is refused.
        spec, file: names of both files, for the error.

    Raises:
        InvalidInput: the message gives the argument's field, the inputs that are made, and the remedies.
    """
    made = returned_names(source)
    for number, argument in enumerate(arguments):
        if made is None or argument.role not in DRAWN or argument.when is not None or argument.name in made:
            continue
        others = ", ".join(sorted(role for role in ROLES if role != argument.role))
        what = "changes in place" if argument.role == "inout" else "reads"
        raise InvalidInput(
            f"{spec}: arguments[{number}].role",
            f"the kernel {what} `{argument.name}`, so {_FUNCTION}() of {file} makes its content, but it returns "
            f"{', '.join(f'`{name}`' for name in sorted(made)) or 'nothing'} alone: return `{argument.name}` as well, "
            f"or give it another role: {others}",
        )


def returned_names(source: bytes) -> frozenset[str] | None:
    """Return the keys of all dicts that the function `inputs` returns; None unless its text lists them all."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    bound = [node for node in tree.body if _binds(node)]
    if len(bound) != 1 or not isinstance(bound[0], ast.FunctionDef) or bound[0].decorator_list:
        return None
    names = set[str]()
    for node in _own_nodes(bound[0]):
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return None
        if isinstance(node, ast.Return):
            if not isinstance(node.value, ast.Dict):
                return None
            for key in node.value.keys:
                if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
                    return None
                names.add(key.value)
    return frozenset(names) or None


def _binds(node: ast.stmt) -> bool:
    """Return True if a statement of the module may define the name `inputs`."""
    for each in ast.walk(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and each.name == _FUNCTION:
            return True
        if isinstance(each, ast.alias) and (each.asname or each.name) in (_FUNCTION, "*"):
            return True
        if isinstance(each, ast.Global) and _FUNCTION in each.names:
            return True
    stored = (each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id == _FUNCTION)
    inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return not inner and any(isinstance(each.ctx, ast.Store) for each in stored)


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Iterate over the nodes of a function, without nested functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
