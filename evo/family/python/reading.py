"""Parses the class in a `family.py`, without running it, into the document of an equivalent family.toml."""

import ast
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from typing import Any

from evo.device.kind import implemented_kinds
from evo.errors import InvalidInput
from evo.text.suggestion import unknown

FILE = "family.py"
FUNCTIONS = ("inputs", "reference", "yardstick", "verify", "baselines", "cuda_baselines")
"""Functions of the class that replace the functions of reference.py."""

_TYPES = {"int": "int", "float": "float", "bool": "bool", "str": "text"}
_SUFFIXES = {"cpu": ".c", "cuda": ".cu", "triton": ".py"}
_POSITIONS = {
    "field": ("default",),
    "argument": ("role", "dtype", "shape"),
    "case": ("inputs",),
    "tunable": ("values",),
}


def read_family(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the family document that a class describes, and the contents of its files (reference.py, kernels) by name.

    Args:
        text: source of a module with exactly one class that is decorated with ``@family``.

    Raises:
        InvalidInput: the text has no such class, or the class has an error. The error's field contains the line.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise InvalidInput(FILE, f"is not valid Python: {error}") from error
    except (RecursionError, MemoryError):
        raise InvalidInput(FILE, "has an expression that is nested too deeply; split it") from None
    marked = [each for each in tree.body if isinstance(each, ast.ClassDef) and "family" in _decorators(each)]
    if len(marked) != 1:
        raise InvalidInput(FILE, f"has {len(marked)} classes with the decorator `@family`; exactly one is required")
    reading = _Class(marked[0])
    return reading.document(), {"reference.py": reading.reference(text), **reading.sources}


class _Class:
    """Reads a family class statement by statement."""

    def __init__(self, node: ast.ClassDef) -> None:
        self._name = node.name
        self._fields: dict[str, Any] = {}
        self._arguments: list[dict[str, Any]] = []
        self._cases: list[dict[str, Any]] = []
        self._kernels: dict[str, Any] = {}
        self._functions: list[str] = []
        self._other = _titles(ast.get_docstring(node))
        self.sources: dict[str, str] = {}
        for each in node.body:
            self._take(each)

    def document(self) -> dict[str, Any]:
        parts = {"problem": self._fields, "arguments": self._arguments, "cases": self._cases, **self._kernels}
        return {"name": self._name, **self._other, **parts}

    def reference(self, text: str) -> str:
        """Return the text of a reference.py: the module's text, and lines that export the functions of the class.

        Raises:
            InvalidInput: the class has no function `inputs`.
        """
        if "inputs" not in self._functions:
            raise InvalidInput(f"{FILE}: {self._name}", "must define `inputs(problem, distribution, rng)`")
        lines = (f"{name} = {self._name}.{name}" for name in self._functions)
        return "\n".join([text.rstrip("\n"), "", "", *lines, ""])

    def _take(self, node: ast.stmt) -> None:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            self._fields[node.target.id] = _field(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self._assigned(node.targets[0].id, node.value)
        elif isinstance(node, ast.FunctionDef):
            self._function(node)
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            raise _refused(
                node, "is not a field, argument, case, kernel or function of reference.py; move it out of the class"
            )

    def _assigned(self, name: str, value: ast.expr) -> None:
        called = _called(value)
        if called == "argument":
            self._arguments.append({"name": name, **_keys(value)})
        elif called == "case":
            self._cases.append({"name": name, **_keys(value)})
        elif name in ("work", "deterministic", "case_problem"):
            self._other[name] = _literal(value)
        else:
            raise _refused(
                value,
                f"`{name}` must be argument(…) or case(…), or have a type if it is a problem field, e.g. "
                f"`{name}: int = 1024`; other accepted names: work, case_problem, deterministic",
            )

    def _function(self, node: ast.FunctionDef) -> None:
        if "kernel" in _decorators(node):
            self._kernels[node.name] = self._kernel(node)
        elif node.name in FUNCTIONS:
            self._functions.append(node.name)
        else:
            reason = unknown(node.name, FUNCTIONS, "accepted functions", reason="the class may not define `{}`")
            raise _refused(node, f"{reason}; move other functions out of the class, and mark kernels with `@kernel`")

    def _kernel(self, node: ast.FunctionDef) -> dict[str, Any]:
        kinds = [*implemented_kinds(), "triton"]
        if node.name not in kinds:
            reason = "the kernel `{}` is not named after a device kind"
            raise _refused(node, unknown(node.name, kinds, "device kinds", reason=reason))
        call = next(each for each in node.decorator_list if isinstance(each, ast.Call) and _called(each) == "kernel")
        table = _keys(call)
        if "source" not in table and "template" not in table:
            table["source"] = f"{node.name}{_SUFFIXES.get(node.name, '.txt')}"
            source = ast.get_docstring(node)
            if source is None:
                remedy = "set `source` or `template`, or write the source as its docstring"
                raise _refused(node, f"`{node.name}` has no source; {remedy}")
            self.sources[table["source"]] = source + "\n"
        return {**table, "tunables": dict(_tunables(node))}


def _tunables(node: ast.FunctionDef) -> Iterator[tuple[str, Any]]:
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        reason = f"`{node.name}` must not have *args, **kwargs or positional-only parameters"
        raise _refused(node, f"{reason}; write each tunable with its values: `def {node.name}(TILE=[8, 16])`")
    defaults = [*[None] * (len(arguments.args) - len(arguments.defaults)), *arguments.defaults, *arguments.kw_defaults]
    for name, default in zip([*arguments.args, *arguments.kwonlyargs], defaults, strict=True):
        if default is None:
            raise _refused(name, f"the tunable `{name.arg}` has no values; write `{name.arg}=[8, 16]`")
        yield name.arg, _keys(default) if _called(default) == "tunable" else _literal(default)


def _field(node: ast.AnnAssign) -> dict[str, Any]:
    kind = node.annotation.id if isinstance(node.annotation, ast.Name) else ""
    if kind not in _TYPES:
        raise _refused(node, f"the type of a problem field must be one of {', '.join(_TYPES)}")
    keys = {} if node.value is None else _keys(node.value) if _called(node.value) else {"default": _literal(node.value)}
    return {"type": "choice" if "choices" in keys else _TYPES[kind], **keys}


def _keys(node: ast.expr) -> dict[str, Any]:
    """Return the values in a declaration such as ``argument(…)``, by parameter name."""
    assert isinstance(node, ast.Call)
    names = _POSITIONS.get(_called(node), ())
    if len(node.args) > len(names):
        raise _refused(
            node, f"`{_called(node)}()` takes at most {len(names)} arguments by position; pass the others by name"
        )
    found = {name: _literal(value) for name, value in zip(names, node.args, strict=False)}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in found:
            raise _refused(node, f"pass each argument of `{_called(node)}()` once, by name")
        found[keyword.arg] = _literal(keyword.value)
    return found


def _called(node: ast.expr) -> str:
    """Return the name of the function that an expression calls; empty if it is not a call."""
    return _name(node.func) if isinstance(node, ast.Call) else ""


def _name(node: ast.expr) -> str:
    """Return a name without the module before it; empty if the expression is not a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _decorators(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    return [_called(each) or _name(each) for each in node.decorator_list]


def _literal(node: ast.expr) -> Any:
    try:
        return _listed(ast.literal_eval(node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        reason = "must be a literal, because the class is parsed but not run"
        raise _refused(node, f"`{ast.unparse(node):.100}` {reason}") from None


def _listed(value: Any) -> Any:
    """Return the value with lists in place of tuples, because TOML has only lists."""
    if isinstance(value, list | tuple):
        return [_listed(each) for each in value]
    return {str(name): _listed(each) for name, each in value.items()} if isinstance(value, Mapping) else value


def _titles(docstring: str | None) -> dict[str, Any]:
    first, _, rest = cleandoc(docstring or "").partition("\n")
    found = {"title": first.strip(), "description": " ".join(rest.split())}
    return {name: text for name, text in found.items() if text}


def _refused(node: ast.expr | ast.stmt | ast.arg, reason: str) -> InvalidInput:
    return InvalidInput(f"{FILE}: line {node.lineno}", reason)
