"""Reads the Python function that ``kernel-evo import --reference`` names.

A user's file is parsed but not run. An installed library is imported.
"""

import ast
import importlib
import importlib.util
import inspect
import site
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from evo.errors import InvalidInput
from evo.family.importing.writing import Answer
from evo.text.encoding import not_utf8, python_text

_LIBRARIES = ("torch", "jax")
_FROM_NUMPY = frozenset({"from_numpy", "as_tensor", "tensor", "asarray", "array"})
"""PyTorch and JAX functions that convert NumPy arrays. A reference that calls one of them takes NumPy arrays."""


def read_answer(reference: str) -> Answer:
    """Return the function that computes the expected outputs.

    A file or a module of the user is read but not run, and its text becomes part of the family. A function of an
    installed library is imported to read its parameters, and the family imports it by name.

    Args:
        reference: ``FILE:FUNCTION`` or ``MODULE:FUNCTION``.

    Raises:
        InvalidInput: there is no such file, module or function, a file is not valid Python, or a file has a relative
            import.
    """
    where, _, function = reference.rpartition(":")
    if not where or not function.isidentifier():
        raise InvalidInput(
            "--reference", f"{reference!r} must have the form FILE:FUNCTION or MODULE:FUNCTION, e.g. conv.py:conv"
        )
    path = _path(where)
    if path is None or _is_library(path):
        return _of_library(where, function)
    text = _python(path)
    tree = _parsed(text, where)
    arguments = _arguments(function, tree)
    if arguments is None:
        names = [each.name for each in tree.body if isinstance(each, ast.FunctionDef)]
        reason = f"{where} defines no function {function}; it has {', '.join(names) or 'none'}"
        raise InvalidInput("--reference", reason)
    return Answer(
        text=text,
        function=function,
        parameters=tuple(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)),
        positional=len(arguments.posonlyargs),
        other_inputs=arguments.kwarg is not None,
        own_inputs=any(isinstance(each, ast.FunctionDef) and each.name == "inputs" for each in tree.body),
        modules=_modules(tree, path),
        library=_library(function, tree),
    )


def _arguments(name: str, tree: ast.Module) -> ast.arguments | None:
    """Return the parameters of the function `name`; None if the file does not define it.

    The definition may be a ``def``, a lambda, another function's name, or a call such as ``jax.jit(f)``, whose first
    argument is a function.
    """
    for _ in range(len(tree.body)):
        value = _defined(name, tree)
        match value:
            case ast.FunctionDef(args=arguments) | ast.Lambda(args=arguments):
                return arguments
            case ast.Call(args=[ast.Name(id=inner), *_]) | ast.Name(id=inner):
                name = inner
            case ast.Call(args=[ast.Lambda(args=arguments), *_]):
                return arguments
            case _:
                return None
    return None


def _defined(name: str, tree: ast.Module) -> ast.AST | None:
    """Return the last definition of a name in a file (a function, or an assigned value); None if there is none."""
    found: ast.AST | None = None
    for each in tree.body:
        match each:
            case ast.FunctionDef(name=defined) if defined == name:
                found = each
            case ast.Assign(targets=[ast.Name(id=defined)], value=value) if defined == name:
                found = value
    return found


def _library(function: str, tree: ast.Module) -> str:
    """Return the library whose arrays a function takes: ``torch``, ``jax``, or an empty string for NumPy.

    A function that uses PyTorch or JAX takes arrays of that library, unless the function converts NumPy arrays itself.
    """
    reached = [*_reached(function, tree)]
    used = {each.id for node in reached for each in ast.walk(node) if isinstance(each, ast.Name)}
    converts = {
        each.func.attr
        for node in reached
        for each in ast.walk(node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
        if isinstance(each.func.value, ast.Name) and _of_module(each.func.value.id, tree) in _LIBRARIES
    }
    if converts & _FROM_NUMPY:
        return ""
    modules = {_of_module(each, tree) for each in used}
    return next((each for each in _LIBRARIES if each in modules), "")


def _reached(function: str, tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the definition of a function, and of each name in the file that it uses directly or indirectly."""
    waiting, seen = [function], set[str]()
    while waiting:
        name = waiting.pop()
        node = None if name in seen else _defined(name, tree)
        seen.add(name)
        if node is not None:
            yield node
            waiting += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _of_module(name: str, tree: ast.Module) -> str:
    """Return the top-level package that a file imports a name from; empty if it does not import the name."""
    for each in tree.body:
        match each:
            case ast.Import(names=names):
                for alias in names:
                    if name == (alias.asname or alias.name.partition(".")[0]):
                        return alias.name.partition(".")[0]
            case ast.ImportFrom(names=names, module=str(module)):
                if name in [alias.asname or alias.name for alias in names]:
                    return module.partition(".")[0]
    return ""


def _is_library(path: Path) -> bool:
    folders = [*site.getsitepackages(), sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    return "site-packages" in path.parts or any(path.is_relative_to(each) for each in folders)


def _of_library(module: str, function: str) -> Answer:
    """Return a function of an installed library. The function takes the kernel's inputs in order."""
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise InvalidInput(
            "--reference", f"{module} cannot be imported ({error}); install it, or correct its name"
        ) from error
    if not callable(found):
        raise InvalidInput("--reference", f"{module} has no function {function}; correct its name")
    return Answer(
        text=f"from {module} import {function}",
        function=function,
        parameters=(),
        in_order=True,
        inputs=_required(found),
        library=next((each for each in _LIBRARIES if module.partition(".")[0] == each), ""),
    )


def _required(function: object) -> int | None:
    """Return the number of inputs that a function requires; None if it is unknown or 0.

    The required inputs are the positional parameters without a default, or the inputs of a NumPy ufunc.
    """
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return getattr(function, "nin", None)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    kinds = [each for each in parameters if each.kind in positional and each.default is inspect.Parameter.empty]
    return len(kinds) or None


def _modules(tree: ast.Module, path: Path, known: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the contents of the modules that a file imports directly or indirectly from its own folder, by file name.

    Args:
        known: contents of the modules that were already found, by file name.

    Raises:
        InvalidInput: a file has a relative import, which cannot work because a family's folder is not a package.
    """
    modules = dict(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            remedy = "give a different file as --reference, whose function imports the package by its full name"
            raise InvalidInput("--reference", f"{path}, line {node.lineno} has a relative import; {remedy}")
        for name in _imported(node):
            file = path.with_name(f"{name}.py")
            if file.name not in modules and file != path and file.is_file():
                text = _python(file)
                modules = _modules(_parsed(text, str(file)), file, {**modules, file.name: text})
    return modules


def _imported(node: ast.AST) -> list[str]:
    names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
    names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
    return [name.partition(".")[0] for name in names]


def _parsed(text: str, where: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InvalidInput("--reference", f"{where}, line {error.lineno}: {error.msg}") from error


def _python(path: Path) -> str:
    content = path.read_bytes()
    try:
        return python_text(content)
    except UnicodeDecodeError as error:
        raise InvalidInput("--reference", f"{path} {not_utf8(content, error, str(path))}") from error
    except SyntaxError as error:
        raise InvalidInput("--reference", f"{path}: {error.msg}") from error


def _path(where: str) -> Path | None:
    """Return the Python file of a path or module name; None for a module without a Python file.

    Raises:
        InvalidInput: there is neither a file nor an installed module of this name.
    """
    path = Path(where)
    if path.is_file():
        return path
    try:
        found = importlib.util.find_spec(where)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise InvalidInput("--reference", f"{where} must be a Python file or an installed Python module")
    return Path(found.origin) if found.origin is not None and found.origin.endswith(".py") else None
