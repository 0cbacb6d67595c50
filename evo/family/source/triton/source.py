"""Reads a Triton source, and selects the code that a kernel needs. The file is parsed but never run.

The file of a Triton kernel usually also creates tensors, runs benchmarks and reads files. Compiling a kernel needs only
imports of Triton, functions decorated with ``@triton.jit``, and constants, so everything else is removed.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evo.errors import InvalidInput
from evo.text.suggestion import unknown

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Compile options of Triton. A tunable or derived value with the same name sets the option."""

_BY_DESCRIPTOR: Mapping[str, str] = {"load_tensor_descriptor": "load", "store_tensor_descriptor": "store"}
"""Functions whose first argument is a tensor descriptor, with the memory access that they perform."""

_ACCESSES = {**_BY_DESCRIPTOR, "gather": "load", "scatter": "store"}

_JIT = ("jit", "autotune", "heuristics")
_MODULES = ("triton",)
_CONSTANT_CALLS = ("constexpr", "float", "int", "bool")
_SUBMODULES = frozenset({"math", "extra", "cuda", "libdevice", "random", "standard"})
_LANGUAGE = re.compile(r"((math|extra(\.cuda)?(\.libdevice)?|libdevice|random|standard)\.)?[A-Za-z]\w*")
_IMPORTED = re.compile(r"triton|triton\.language(\.math|\.extra(\.cuda)?(\.libdevice)?|\.random|\.standard)?")
_REFUSED = frozenset(
    {"__import__", "breakpoint", "compile", "delattr", "eval", "exec", "getattr", "globals", "input"}
    | {"locals", "open", "setattr", "type", "vars"}
)
"""Python functions that a kernel must not use."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        constant: True if the parameter is annotated with ``tl.constexpr``.
        pointer: True if the parameter is dereferenced, or named like a pointer.
        described: True if the parameter is a tensor descriptor that the caller creates.
        default: literal default value; None if there is none.
    """

    name: str
    constant: bool
    pointer: bool
    described: bool = False
    default: int | float | bool | str | None = None


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A function that is decorated with ``@triton.jit``.

    Attributes:
        decorators: Triton's decorators with arguments, e.g. ``triton.autotune(…)``.
        node: syntax tree of the function.
    """

    name: str
    parameters: tuple[Parameter, ...]
    node: ast.FunctionDef = field(repr=False, compare=False)
    decorators: tuple[ast.Call, ...] = ()


def parsed(text: str, file: str) -> ast.Module:
    """Return the syntax tree of a source.

    Raises:
        InvalidInput: the source is not Python, or an expression is nested too deeply.
    """
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise InvalidInput(file, f"line {error.lineno}: {error.msg}") from error
    except (MemoryError, RecursionError) as error:
        raise InvalidInput(file, "has an expression that is nested too deeply; split it") from error


def kernels_of(tree: ast.Module) -> tuple[Kernel, ...]:
    """Return the functions that are decorated with ``@triton.jit``, in the order of the source."""
    found = (_kernel(node) for node in tree.body if isinstance(node, ast.FunctionDef))
    return tuple(each for each in found if each is not None)


def _kernel(node: ast.FunctionDef) -> Kernel | None:
    if not any(_called(each) == "jit" for each in node.decorator_list):
        return None
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    defaults: dict[str, ast.expr] = dict(
        zip([each.arg for each in reversed(arguments)], reversed(node.args.defaults), strict=False)
    )
    pointers, described = _pointers(node), _described(node)
    return Kernel(
        name=node.name,
        parameters=tuple(
            Parameter(
                name=each.arg,
                constant=_is_constant(each.annotation),
                pointer=each.arg in pointers,
                described=each.arg in described,
                default=_literal(defaults.get(each.arg)),
            )
            for each in arguments
        ),
        node=node,
        decorators=tuple(each for each in node.decorator_list if isinstance(each, ast.Call) and _called(each) in _JIT),
    )


def _called(node: ast.expr) -> str:
    """Return the name of a decorator or called function without its module, e.g. ``autotune``."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_constant(annotation: ast.expr | None) -> bool:
    return annotation is not None and "constexpr" in ast.unparse(annotation)


def _literal(node: ast.expr | None) -> int | float | bool | str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str) else None


def _pointers(node: ast.FunctionDef) -> set[str]:
    """Return the parameters that are named like pointers or used as addresses, directly or through variables."""
    names = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    named = {name for name in names if name.lower().endswith(("_ptr", "_pointer", "ptr", "_ptrs"))}
    return named | (names & addressed(node).keys())


def _described(node: ast.FunctionDef) -> set[str]:
    """Return the parameters that take a tensor descriptor from the caller.

    The kernel accesses memory through such a parameter (``x.load(…)``, ``tl.store_tensor_descriptor(x, …)``), and never
    assigns a value to the parameter.
    """
    names = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)}
    found = set[str]()
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        match call:
            case ast.Call(args=[ast.Name(id=name), *_]) if _called(call) in _BY_DESCRIPTOR:
                found.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=access)) if _access(access):
                found.add(name)
    return (found & names) - assigned(node).keys()


def _access(name: str) -> str | None:
    """Return the memory access of a Triton function (``load``, ``store``, ``atomic_add`` …); None if it has none."""
    if name in ("load", "store") or name.startswith("atomic_"):
        return name
    return _ACCESSES.get(name)


def addressed(node: ast.FunctionDef) -> dict[str, set[str]]:
    """Return the Triton operations (``load``, ``atomic_add`` …) that use each name as an address, by name.

    Addresses are followed through assignments: after ``p = x + offsets``, ``tl.load(p)`` makes ``x`` an address, too.
    """
    made = assigned(node)
    found: dict[str, set[str]] = {}
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        address = address_of(call)
        for name in bases(address, made, set()) if address is not None else ():
            found.setdefault(name, set()).add(_access(_called(call)) or "")
    return found


def accesses(kernel: Kernel, kernels: Sequence[Kernel]) -> dict[str, set[str]]:
    """Return the Triton operations (``load`` …) that access memory through each name, by name.

    Accesses in functions that the kernel calls are included.
    """
    return _accesses(kernel, {each.name: each for each in kernels}, ())


def _accesses(kernel: Kernel, kernels: Mapping[str, Kernel], above: tuple[str, ...]) -> dict[str, set[str]]:
    found, made = addressed(kernel.node), assigned(kernel.node)
    for call in (each for each in ast.walk(kernel.node) if isinstance(each, ast.Call)):
        name = _called(call)
        if name not in kernels or name in (*above, kernel.name) or not isinstance(call.func, ast.Name):
            continue
        inner = _accesses(kernels[name], kernels, (*above, kernel.name))
        parameters = [each.name for each in kernels[name].parameters]
        passed = [*zip(parameters, call.args, strict=False), *((each.arg, each.value) for each in call.keywords)]
        for parameter, given in passed:
            for access in inner.get(parameter or "", ()):
                for base in bases(given, made, set()):
                    found.setdefault(base, set()).add(access)
    return found


def address_of(call: ast.Call) -> ast.expr | None:
    """Return the address expression of a memory access: ``x`` in ``x.load(…)`` and in ``tl.load(x, …)``.

    Return None if the call accesses no memory or has no address.
    """
    if _access(_called(call)) is None:
        return None
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) not in ("tl", "triton.language"):
        return call.func.value
    return call.args[0] if call.args else None


def assigned(node: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Return the values that ``=`` assigns to each variable of a kernel, including those in ``i, j = a, b``."""
    made: dict[str, list[ast.expr]] = {}
    for each in (each for each in ast.walk(node) if isinstance(each, ast.Assign)):
        for name, value in (pair for target in each.targets for pair in _pairs(target, each.value)):
            made.setdefault(name, []).append(value)
    return made


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    match target, value:
        case ast.Name(id=name), _:
            yield name, value
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            yield from (pair for each in zip(targets, values, strict=False) for pair in _pairs(*each))


def bases(node: ast.expr, made: Mapping[str, list[ast.expr]], seen: set[str]) -> Iterator[str]:
    """Yield the base pointers of an address, e.g. ``x`` for ``x + i * n``.

    A variable that contains such an address is yielded, too, before the base pointers in the variable's values.

    Args:
        made: values that are assigned to variables, by variable.
        seen: variables that were already followed. The set is extended.
    """
    match node:
        case ast.Name(id=name) if name not in seen:
            seen.add(name)
            yield name
            for value in made.get(name, ()):
                yield from bases(value, made, seen)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            yield from bases(left, made, seen)
            if not isinstance(left, ast.Name):
                yield from bases(right, made, seen) if isinstance(right, ast.Name) else ()
        case ast.Call(func=ast.Attribute(value=ast.Name() as base)) if base.id not in ("tl", "triton"):
            yield from bases(base, made, seen)
        case ast.Call(args=[first, *_]) if _called(node) in ("make_block_ptr", "make_tensor_descriptor", "advance"):
            yield from bases(first, made, seen)
        case ast.Call(keywords=keywords) if _called(node) in ("make_block_ptr", "make_tensor_descriptor"):
            for each in keywords:
                if each.arg == "base":
                    yield from bases(each.value, made, seen)


def sliced(text: str, entry: str, file: str) -> str:
    """Return the source with only the code that one kernel needs.

    All other lines are blank, so line numbers do not change. Decorators other than ``@triton.jit`` are removed, because
    a search replaces ``@triton.autotune``.

    Raises:
        InvalidInput: the source is not Python, has no kernel with this name, or the needed code uses Python objects
            outside Triton's language, e.g. ``open`` or ``tl.core.os``. Undefined names are not detected.
    """
    tree = parsed(text, file)
    names = [each.name for each in kernels_of(tree)]
    if entry not in names:
        raise InvalidInput(f"{file}: entry", unknown(entry, names, "functions decorated with @triton.jit"))
    return _needed(text, tree, [entry], file)


def definitions(text: str, file: str) -> dict[str, ast.stmt]:
    """Return the statements that define a kernel or constant or import from Triton, by name.

    Raises:
        InvalidInput: the source is not Python.
    """
    return _statements_by_name(parsed(text, file))


def names_used(node: ast.stmt) -> list[str]:
    """Return the names that a kernel or constant uses, without names in decorators and in the return type."""
    return [each.id for each in ast.walk(_bare(node)) if isinstance(each, ast.Name)]


def needed(text: str, names: Collection[str], file: str) -> str:
    """Return the source with only the code that these kernels and constants need; see `sliced`.

    Args:
        names: names of kernels and constants. Names that the source does not define are ignored.

    Raises:
        InvalidInput: the source is not Python, or the needed code uses Python objects outside Triton's language.
    """
    return _needed(text, parsed(text, file), names, file)


def _needed(text: str, tree: ast.Module, names: Collection[str], file: str) -> str:
    lines, kept = text.split("\n"), [""] * (text.count("\n") + 1)
    statements, modules = _statements_by_name(tree), _modules(tree)
    waiting, seen = [*names], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in statements:
            continue
        seen.add(name)
        node = statements[name]
        _keep(node, lines, kept)
        if not isinstance(node, ast.Import | ast.ImportFrom):
            _check(node, modules, file)
            waiting += names_used(node)
    for node in tree.body:
        if isinstance(node, ast.Import) and any(each.name.split(".")[0] in _MODULES for each in node.names):
            _keep(node, lines, kept)
    return "\n".join(kept)


def _bare(node: ast.stmt) -> ast.AST:
    """Return a function without its decorators and its return type; other statements are returned unchanged."""
    if isinstance(node, ast.FunctionDef):
        return ast.Module(body=[*node.body, *(ast.Expr(each) for each in _of_signature(node))], type_ignores=[])
    return node


def _of_signature(node: ast.FunctionDef) -> list[ast.expr]:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    annotations = [each.annotation for each in arguments if each.annotation is not None]
    return [*annotations, *node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]


def _statements_by_name(tree: ast.Module) -> dict[str, ast.stmt]:
    """Return the statements that define a kernel or constant or import from Triton, by name.

    If several statements define a name, the last one is returned.
    """
    found: dict[str, ast.stmt] = {}
    for node in _statements(tree.body):
        match node:
            case ast.Import(names=names):
                own = (each for each in names if each.name.split(".")[0] in _MODULES)
                found |= {(each.asname or each.name.split(".")[0]): node for each in own}
            case ast.ImportFrom(module=str(module), names=names, level=0) if _IMPORTED.fullmatch(module):
                if all(_importable(module, each.name) for each in names):
                    found |= {(each.asname or each.name): node for each in names}
            case ast.FunctionDef(name=name) if any(_called(each) == "jit" for each in node.decorator_list):
                found[name] = node
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _constant_value(value):
                found[name] = node
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _constant_value(value):
                found[name] = node
    return found


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file. For ``if`` and ``try``, yield the imports in all branches, first branch last.

    Such branches usually import the same functions from several versions of Triton, newest version first.
    """
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            handlers = [each.body for each in node.handlers] if isinstance(node, ast.Try) else []
            inner = (each for branch in (node.orelse, *reversed(handlers), node.body) for each in _statements(branch))
            yield from (each for each in inner if isinstance(each, ast.Import | ast.ImportFrom))
        else:
            yield node


def _importable(module: str, name: str) -> bool:
    """Return True if a source may import this name from this module of Triton."""
    return name in ("jit", "language", "cdiv", "next_power_of_2") if module == "triton" else name not in _REFUSED


def _constant_value(node: ast.expr) -> bool:
    """Return True for an expression that can be the value of a constant.

    Such an expression is a literal, another name, a Triton dtype, arithmetic with constants, or a call of
    ``tl.constexpr``, ``int``, ``float`` or ``bool`` with constants.
    """
    match node:
        case ast.Constant() | ast.Name():
            return True
        case ast.UnaryOp(operand=operand):
            return _constant_value(operand)
        case ast.BinOp(left=left, right=right):
            return _constant_value(left) and _constant_value(right)
        case ast.Attribute(value=ast.Name(id=name)):
            return name in ("tl", "triton")
        case ast.Call(args=arguments, keywords=[]):
            return _called(node) in _CONSTANT_CALLS and all(_constant_value(each) for each in arguments)
    return False


def _keep(node: ast.stmt, lines: Sequence[str], kept: list[str]) -> None:
    """Copy a statement from `lines` to `kept`.

    Imports of packages other than Triton, and other statements on the same line, are left out.
    """
    first = node.lineno - 1
    if isinstance(node, ast.FunctionDef):
        kept[first : node.end_lineno] = lines[first : node.end_lineno]
        start = node.decorator_list[0].lineno - 1
        end = max(each.end_lineno or each.lineno for each in node.decorator_list)
        kept[start:end] = [""] * (end - start)
        kept[first - 1] = "@triton.jit"
        return
    if isinstance(node, ast.Import):
        node = ast.Import([each for each in node.names if each.name.split(".")[0] in _MODULES])
    before, text = kept[first].split("; "), ast.unparse(node)
    kept[first] = "; ".join([*filter(None, before), *([] if text in before else [text])])


def _check(node: ast.stmt, modules: Collection[str], file: str) -> None:
    """Refuse a kernel or constant that uses Python objects outside Triton's language.

    While Triton compiles, it evaluates attributes of modules and calls the resulting objects. Other objects could
    therefore run arbitrary Python code.

    Args:
        modules: names of the modules that the file imports.
    """
    bare = _bare(node)
    bases = {id(each.value) for each in ast.walk(bare) if isinstance(each, ast.Attribute)}
    for each in ast.walk(bare):
        fault = ""
        if isinstance(each, ast.Attribute) and (each.attr.startswith("__") or not _of_language(each, modules, bases)):
            fault = ast.unparse(each)
        elif isinstance(each, ast.Name) and (each.id in _REFUSED or (each.id in modules and id(each) not in bases)):
            fault = each.id
        if fault:
            line = getattr(each, "lineno", node.lineno)
            raise InvalidInput(
                file, f"line {line}: `{fault:.60}` is not part of Triton's language; a kernel must not use it"
            )


def _of_language(node: ast.Attribute, modules: Collection[str], bases: Collection[int]) -> bool:
    """Return False if an attribute of a module is not part of Triton's language, e.g. ``tl.core.os``.

    Args:
        bases: ids of nodes that are parts of a longer chain of attributes. Only the whole chain is checked.
    """
    root: ast.expr = node
    while isinstance(root, ast.Attribute):
        root = root.value
    if not (isinstance(root, ast.Name) and root.id in modules) or id(node) in bases:
        return True
    inner = ast.unparse(node).partition(".")[2].removeprefix("language.")
    return _LANGUAGE.fullmatch(inner) is not None and inner.rpartition(".")[2] not in _SUBMODULES


def _modules(tree: ast.Module) -> set[str]:
    """Return the names under which a file imports modules, and ``triton``."""
    found = {"triton"}
    for node in _statements(tree.body):
        match node:
            case ast.Import(names=names):
                found |= {(each.asname or each.name.partition(".")[0]) for each in names}
            case ast.ImportFrom(names=names):
                found |= {(each.asname or each.name) for each in names if each.name in _SUBMODULES | {"language"}}
    return found
