"""Drafts a family from a Triton source. Guesses are marked, because a person must check them.

``@triton.autotune`` becomes tunables, starts and initial contents of buffers. The file is parsed but never run.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from evo.errors import InvalidInput
from evo.family.importing.configs import OPTIONS, Configs, read_configs
from evo.family.importing.draft import PRODUCT, UNSTATED, Draft, DraftArgument, DraftField, with_usual_values
from evo.family.importing.tunables import DraftTunable
from evo.family.source.triton.source import Kernel, Parameter, accesses, kernels_of, parsed
from evo.space.expression import Expression
from evo.text.suggestion import unknown
from evo.trial import Value

MOST_STARTS = 12
"""Maximum number of configs of ``@triton.autotune`` that become starts. They are spread evenly over a longer list."""

_TUNABLE = re.compile(r"BLOCK|TILE|GROUP|SPLIT|UNROLL|CHUNK|NUM_STAGES|STEPS?\b|^B[MNKHD]$", re.IGNORECASE)
_FLAG = re.compile(r"^(is|has|use|even|causal|with)_?|_?(output|causal|specialize|bias|mask)$", re.IGNORECASE)
_FLOAT = re.compile(r"eps|scale|alpha|beta|slope|temperature|^p$", re.IGNORECASE)
_STRIDE = re.compile(r"stride", re.IGNORECASE)
_DESCRIPTORS = ("TensorDescriptor", "from_tensor")
_USUAL_BLOCK = 1024
"""Default value of a compile-time number, which may have to be a power of two."""
_BLOCKS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
_SIDES = (16, 32, 64, 128, 256)
_SIDE = re.compile(r"^B[MNKHD]$|(?:BLOCK|TILE).*_[MNKHDXY]$", re.IGNORECASE)
"""Matches the name of one extent of a block with several extents."""


@dataclass(frozen=True, kw_only=True)
class _Tuning:
    """Settings from a kernel's decorators."""

    configs: Configs = field(default_factory=lambda: Configs(values=()))
    zeroed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def drafted_from_triton(text: str, file: str, entry: str | None) -> Draft:
    """Return the family drafted from a Triton source.

    Raises:
        InvalidInput: the file is not Python or has no kernel, or `entry` does not select one of several kernels.
    """
    tree = parsed(text, file)
    kernels = kernels_of(tree)
    kernel = _chosen(kernels, tree, entry)
    tuning = _tuning(kernel, tree)
    tunables = tuple(_tunables(kernel, tuning, tree))
    derived = dict(tuning.derived)
    pointers = [each for each in kernel.parameters if _addressed(each, kernel, kernels)]
    taken = {*(each.name for each in pointers), *(each.name for each in tunables), *derived}
    others = [each for each in kernel.parameters if each.name not in taken]
    fields = with_usual_values(tuple(_fields(others)))
    fields = fields or (DraftField(name="N", default=65536, decide="name the problem's extents"),)
    extents = [each.name for each in fields if each.type == "int" and not each.flag]
    derived |= {each.name: _stride(each.name, extents) for each in others if _STRIDE.search(each.name)}
    used = accesses(kernel, kernels)
    names = [each.name for each in tunables]
    grid, decided = _grid(kernel, tree, [*extents, *names, *derived])
    passed = tuple(_argument(each, used.get(each.name, set()), tuning, extents) for each in pointers)
    return Draft(
        kind="triton",
        entry=kernel.name,
        fields=fields,
        arguments=passed,
        tunables=tunables,
        macros=(),
        grid=grid,
        block=(),
        derived=derived,
        starts=_starts(tuning.configs, tunables),
        descriptors={
            argument.name: block
            for parameter, argument in zip(pointers, passed, strict=True)
            if (block := _block(parameter.name, kernel, tree, {*names, *extents, *derived})) or parameter.described
        },
        notes=(*tuning.notes, *(() if decided else ("the grid (no launch in the file states it)",))),
    )


def _chosen(kernels: Sequence[Kernel], tree: ast.Module, entry: str | None) -> Kernel:
    names = [each.name for each in kernels]
    if not names:
        raise InvalidInput("FILE", "has no function that is decorated with @triton.jit")
    if entry is not None:
        if entry not in names:
            raise InvalidInput("--entry", unknown(entry, names, "functions under @triton.jit"))
        return kernels[names.index(entry)]
    inner = {
        each.func.id
        for kernel in kernels
        for each in ast.walk(kernel.node)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
    }
    outer = [each for each in kernels if each.name not in inner]
    if len(outer) != 1:
        found = [each.name for each in outer or kernels]
        raise InvalidInput(
            "--entry", f"is missing, but the source has {', '.join(found)}; choose one, e.g. --entry {found[0]}"
        )
    return outer[0]


def _tuning(kernel: Kernel, tree: ast.Module) -> _Tuning:
    tuning = _Tuning()
    for decorator in kernel.decorators:
        name = decorator.func.attr if isinstance(decorator.func, ast.Attribute) else ""
        keywords = {each.arg: each.value for each in decorator.keywords if each.arg}
        if name == "heuristics":
            tuning = _Tuning(**{**vars(tuning), **_heuristics(decorator, tuning)})
        if name != "autotune":
            continue
        if decorator.args:
            keywords.setdefault("configs", decorator.args[0])
        configs = read_configs(keywords["configs"], tree) if "configs" in keywords else Configs(values=())
        notes = [f"this part of the configs was not read or applied: {each}" for each in configs.unread]
        if "prune_configs_by" in keywords:
            notes.append(
                f"prune_configs_by = {ast.unparse(keywords['prune_configs_by'])} is Python code, which is not run; "
                "write the conditions under which it keeps a config as [[triton.constraints]]"
            )
        tuning = _Tuning(
            configs=configs,
            zeroed=_texts(keywords.get("reset_to_zero")),
            restored=_texts(keywords.get("restore_value")),
            derived=tuning.derived,
            notes=(*tuning.notes, *notes),
        )
    return tuning


def _heuristics(decorator: ast.Call, tuning: _Tuning) -> dict[str, object]:
    """Return `derived` and `notes` of `tuning`, extended by the functions of ``@triton.heuristics``."""
    derived, notes = dict(tuning.derived), list(tuning.notes)
    table = decorator.args[0] if decorator.args else next((each.value for each in decorator.keywords), None)
    pairs = zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
    for key, value in pairs:
        name = str(key.value) if isinstance(key, ast.Constant) else ""
        expression = _expression(value.body, _parameter_of(value)) if isinstance(value, ast.Lambda) else None
        if expression is None:
            notes.append(f"heuristic {name}: write it under [triton.derived], {ast.unparse(value)}")
        derived[name] = expression or "1"
    return {"derived": derived, "notes": tuple(notes)}


def _parameter_of(function: ast.Lambda) -> str:
    return function.args.args[0].arg if function.args.args else ""


def _expression(node: ast.expr, meta: str) -> str | None:
    """Return a Python expression in the syntax of family.toml, with N for ``meta["N"]``; None if that is impossible."""

    class Names(ast.NodeTransformer):
        def visit_Subscript(self, found: ast.Subscript) -> ast.expr:
            if isinstance(found.value, ast.Name) and found.value.id == meta and isinstance(found.slice, ast.Constant):
                return ast.Name(id=str(found.slice.value))
            return found

        def visit_Call(self, found: ast.Call) -> ast.expr:
            self.generic_visit(found)
            if ast.unparse(found.func) in ("triton.cdiv", "tl.cdiv", "cdiv"):
                return ast.Call(func=ast.Name(id="ceil_div"), args=found.args, keywords=[])
            return found

    text = ast.unparse(Names().visit(ast.parse(ast.unparse(node), mode="eval").body))
    try:
        return Expression.parse(text, "import").text
    except InvalidInput:
        return None


def _tunables(kernel: Kernel, tuning: _Tuning, tree: ast.Module) -> Iterator[DraftTunable]:
    configs = tuning.configs.values
    parameters = {each.name for each in kernel.parameters}
    names = dict.fromkeys(name for each in configs for name in each if name in parameters | set(OPTIONS))
    for name in names:
        values = list(dict.fromkeys(each[name] for each in configs))
        ordered = sorted(values) if all(isinstance(each, int) for each in values) else values
        if len(ordered) > 1 or name in parameters:
            yield DraftTunable(name=name, values=tuple(ordered), default=configs[0][name])
    for each in kernel.parameters:
        if each.constant and each.name not in names and each.default is None and _TUNABLE.search(each.name):
            passed = _passed_value(kernel.name, each.name, tree)
            yield _guessed(each.name, passed)
    if not configs:
        yield DraftTunable(name="num_warps", values=(1, 2, 4, 8, 16), default=4)


def _guessed(name: str, passed: int | None) -> DraftTunable:
    if "stages" in name.lower():
        return DraftTunable(name=name, values=(1, 2, 3, 4), default=2)
    if "group" in name.lower() or "split" in name.lower():
        return DraftTunable(name=name, values=(1, 2, 4, 8), default=passed or 4, decide="its values")
    blocks, usual = (_SIDES, 64) if _SIDE.search(name) else (_BLOCKS, 1024)
    values = tuple(sorted({*blocks, *((passed,) if passed else ())}))
    return DraftTunable(name=name, values=values, default=passed or usual, decide="its values")


def _passed_value(kernel: str, name: str, tree: ast.Module) -> int | None:
    """Return the number that a launch in the file passes for a parameter; None if there is none."""
    for call in _launches(kernel, tree):
        for each in call.keywords:
            if each.arg == name and isinstance(each.value, ast.Constant) and isinstance(each.value.value, int):
                return each.value.value
    return None


def _launches(kernel: str, tree: ast.Module) -> Iterator[ast.Call]:
    for each in ast.walk(tree):
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Subscript)
            and ast.unparse(each.func.value) == kernel
        ):
            yield each


def _addressed(parameter: Parameter, kernel: Kernel, kernels: Sequence[Kernel]) -> bool:
    return not parameter.constant and (parameter.pointer or parameter.name in accesses(kernel, kernels))


def _fields(parameters: Sequence[Parameter]) -> Iterator[DraftField]:
    for each in parameters:
        if _STRIDE.search(each.name) or (each.constant and each.default is not None):
            continue
        name = each.name
        if _FLOAT.search(name) and not each.constant:
            yield DraftField(
                name=name, type="float", default=1e-5 if "eps" in name.lower() else 1.0, decide="its value"
            )
        elif _FLAG.search(name):
            yield DraftField(name=name, type="bool", default=False, decide="its value")
        elif each.constant and name.upper() == name and re.search(r"ACTIVATION|MODE|TYPE|KIND|DTYPE|PRECISION", name):
            yield DraftField(name=name, type="text", default="none", decide="its value")
        else:
            default = _USUAL_BLOCK if each.constant else UNSTATED
            yield DraftField(name=name, default=default, decide="its usual value", flag=each.constant and len(name) > 2)


def _stride(name: str, extents: Sequence[str]) -> str:
    """Return the probable value of a stride, as an expression, based on its name.

    In ``stride_am``, the last letter names the dimension, and the letter before it names the matrix.
    """
    last = name[-1].upper()
    if {"M", "N", "K"} <= set(extents) and len(name) >= 2 and name[-2] in "abc":
        dims = PRODUCT[name[-2]]
        return "1" if last == dims[1] else dims[1]
    return extents[-1] if extents else "1"


def _argument(parameter: Parameter, used: set[str], tuning: _Tuning, extents: Sequence[str]) -> DraftArgument:
    name = parameter.name
    atomic = any(each.startswith("atomic") for each in used)
    read, written = "load" in used, "store" in used or atomic
    role, decide = ("inout", "") if read and written else ("output", "") if written else ("input", "")
    if not used:
        decide = "its role"
    if name in tuning.zeroed or (atomic and not read):
        role = "output"
    if name in tuning.restored:
        role = "inout"
    plain = re.sub(r"(^desc_?|_?(ptr|pointer|desc)$)", "", name, flags=re.IGNORECASE) or name
    shape = tuple(extents)
    if {"M", "N", "K"} <= set(extents):
        shape = PRODUCT.get(plain.lower()[:1], shape)
    return DraftArgument(
        name=plain,
        role=role,
        dtype="float32",
        shape=shape,
        init=name in tuning.zeroed or (atomic and role == "output"),
        decide=decide,
        alignment=16,
        dtype_decide="its dtype (the Triton source does not state it)",
    )


def _block(name: str, kernel: Kernel, tree: ast.Module, known: Collection[str]) -> tuple[str, ...]:
    """Return the block shape of the tensor descriptor that the file passes for a parameter; empty if unknown.

    The shape is read from a ``pre_hook`` of the configs (``nargs["a"].block_shape = [BLOCK_M, BLOCK_K]``) or, without a
    ``pre_hook``, from the ``TensorDescriptor`` that the launch passes.
    """
    hooked = (
        each.value
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign)
        and any(re.fullmatch(rf"\w+\['{name}'\]\.block_shape", ast.unparse(target)) for target in each.targets)
    )
    for found in (*hooked, *_described_blocks(name, kernel, tree)):
        if not isinstance(found, ast.List | ast.Tuple):
            continue
        extents = [_expression(each, "nargs") for each in found.elts]
        named = {word for each in extents for word in re.findall(r"[A-Za-z_]\w*", each or "?")}
        if extents and all(extents) and named <= set(known):
            return tuple(each for each in extents if each)
    return ()


def _described_blocks(name: str, kernel: Kernel, tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the block shapes of the tensor descriptors that launches in the file pass for this parameter."""
    for call in _launches(kernel.name, tree):
        passed = dict(zip((each.name for each in kernel.parameters), call.args, strict=False))
        passed |= {each.arg: each.value for each in call.keywords if each.arg}
        value = passed.get(name)
        made = [value, *(each.value for each in ast.walk(tree) if _assigns(each, value))]
        for each in made:
            if isinstance(each, ast.Call) and ast.unparse(each.func).rpartition(".")[2] in _DESCRIPTORS:
                by_name = {keyword.arg: keyword.value for keyword in each.keywords}
                yield from (by_name[key] for key in ("block_shape",) if key in by_name)
                yield from each.args[-1:]


def _assigns(node: ast.AST, name: ast.expr | None) -> TypeGuard[ast.Assign]:
    return (
        isinstance(node, ast.Assign)
        and isinstance(name, ast.Name)
        and any(isinstance(target, ast.Name) and target.id == name.id for target in node.targets)
    )


def _grid(kernel: Kernel, tree: ast.Module, known: Sequence[str]) -> tuple[tuple[str, ...], bool]:
    """Return the grid of a launch in the file, and True; if no grid was understood, a guessed grid, and False."""
    for call in _launches(kernel.name, tree):
        node = call.func.slice if isinstance(call.func, ast.Subscript) else None
        passed = _passed_names(kernel, call)
        for meta, extents in _extents(node, tree):
            found = [_renamed(_expression(each, meta), passed) for each in extents]
            names = {name for each in found if each for name in re.findall(r"[A-Za-z_]\w*", each)}
            if all(found) and names <= {*known, "ceil_div", "min", "max"}:
                return tuple(each for each in found if each), True
    block = next((name for name in known if "BLOCK" in name.upper()), "")
    first = known[0] if known else "1"
    return ((f"ceil_div({first}, {block})" if block else first,), False)


def _passed_names(kernel: Kernel, call: ast.Call) -> dict[str, str]:
    """Return the names of the kernel's parameters, by the name of the variable that the launch passes."""
    passed = zip((each.name for each in kernel.parameters), call.args, strict=False)
    pairs = [*passed, *((each.arg, each.value) for each in call.keywords if each.arg)]
    return {value.id: name for name, value in pairs if isinstance(value, ast.Name)}


def _renamed(text: str | None, names: Mapping[str, str]) -> str | None:
    return text and re.sub(r"[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)


def _extents(node: ast.expr | None, tree: ast.Module) -> Iterator[tuple[str, list[ast.expr]]]:
    """Yield the grids that an expression may denote, each as the name of a parameter and the extents.

    The expression is a tuple, a lambda, or the name of a variable or function. The parameter is that of the lambda or
    function, which the extents may use; for a tuple, its name is empty.
    """
    match node:
        case ast.Tuple(elts=elements):
            yield "", elements
        case ast.Lambda(body=ast.Tuple(elts=elements)):
            yield _parameter_of(node), elements
        case ast.Name(id=name):
            for each in ast.walk(tree):
                if isinstance(each, ast.Assign) and any(ast.unparse(target) == name for target in each.targets):
                    if not isinstance(each.value, ast.Name):
                        yield from _extents(each.value, tree)
                elif isinstance(each, ast.FunctionDef) and each.name == name and each.args.args:
                    returned = [found.value for found in ast.walk(each) if isinstance(found, ast.Return)]
                    yield from (
                        (each.args.args[0].arg, found.elts) for found in returned if isinstance(found, ast.Tuple)
                    )


def _starts(configs: Configs, tunables: Sequence[DraftTunable]) -> tuple[Mapping[str, Value], ...]:
    names = {each.name for each in tunables}
    found = [{name: value for name, value in each.items() if name in names} for each in configs.values]
    different = [each for index, each in enumerate(found) if each not in found[:index]]
    step = max(1, -(-len(different) // MOST_STARTS))
    return tuple(different[::step]) if len(different) > 1 else ()


def _texts(node: ast.expr | None) -> tuple[str, ...]:
    if not isinstance(node, ast.List | ast.Tuple):
        return ()
    return tuple(str(each.value) for each in node.elts if isinstance(each, ast.Constant))
