"""Determines which inputs a reference.py creates, from its source text and without executing it."""

import ast
from collections.abc import Iterator, Sequence

from evo.errors import InvalidInput
from evo.family.argument import DRAWN, ROLES, Argument

_FUNCTION = "inputs"


def require_inputs(arguments: Sequence[Argument], source: bytes, *, spec: str, file: str) -> None:
    """Check that the function `inputs` of reference.py creates all arguments that the kernel reads.

    Arguments that not every call has (`when`) are not checked.

    Args:
        source: text of reference.py. If the text does not show which inputs are created, nothing is checked.
        spec, file: names of family.toml and reference.py in the error message.

    Raises:
        InvalidInput: `inputs` does not create an argument that the kernel reads.
    """
    made = returned_names(source)
    for number, argument in enumerate(arguments):
        if made is None or argument.role not in DRAWN or argument.when is not None or argument.name in made:
            continue
        others = ", ".join(sorted(role for role in ROLES if role != argument.role))
        what = "changes in place" if argument.role == "inout" else "reads"
        raise InvalidInput(
            f"{spec}: arguments[{number}].role",
            f"the kernel {what} `{argument.name}`, so {_FUNCTION}() of {file} must return it, but returns "
            f"{', '.join(f'`{name}`' for name in sorted(made)) or 'no inputs'}; also return `{argument.name}`, or give "
            f"it another role: {others}",
        )


def returned_names(source: bytes) -> frozenset[str] | None:
    """Return the keys of the dicts that the function `inputs` returns, or None if the text does not show them."""
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
    inner = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id == _FUNCTION and isinstance(each.ctx, ast.Store) and not inner:
            return True
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and each.name == _FUNCTION:
            return True
        if isinstance(each, ast.alias) and (each.asname or each.name) in (_FUNCTION, "*"):
            return True
        if isinstance(each, ast.Global) and _FUNCTION in each.names:
            return True
    return False


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function, without those in nested functions and classes."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
