"""Drafts a family from a Triton source. Guesses are marked, because a person must check them.

``@triton.autotune`` becomes tunables, starts and initial contents of buffers. The file is parsed but never run.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evo.device import kind_of
from evo.errors import InvalidInput
from evo.family.importing.draft import (
    PRODUCT,
    UNSTATED,
    Draft,
    DraftArgument,
    DraftField,
    DraftLaunch,
    with_usual_values,
)
from evo.family.importing.triton.configs import OPTIONS, Configs, read_configs
from evo.family.importing.triton.launches import (
    Launch,
    block_of,
    expression_of,
    found_grid,
    launches_of,
    parameter_of,
    passed_number,
)
from evo.family.importing.triton.uses import Shapes, Uses, uses_of
from evo.family.importing.tunables import DraftTunable
from evo.family.source.triton.source import Kernel, Parameter, accesses, kernels_of, parsed
from evo.text.suggestion import unknown
from evo.trial import Value

MOST_STARTS = 12
"""Maximum number of configs of ``@triton.autotune`` that become starts. They are evenly spaced in a longer list."""

_TUNABLE = re.compile(r"BLOCK|TILE|GROUP|SPLIT|UNROLL|CHUNK|NUM_STAGES|STEPS?\b|^B[MNKHD]$", re.IGNORECASE)
_FLAG = re.compile(r"^(is|has|use|even|causal|with)_?|_?(output|causal|specialize|bias|mask)$", re.IGNORECASE)
_FLOAT = re.compile(r"eps|scale|alpha|beta|slope|temperature|smoothing|softcap|dropout|^p$", re.IGNORECASE)
_STRIDE = re.compile(r"stride", re.IGNORECASE)
_HOST = "its usual value (the host code computes it for the grid)"
_USUAL_BLOCK = 1024
"""Default value of a compile-time integer: a power of two, because the kernel may require one."""
_BLOCKS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
_SIDES = (16, 32, 64, 128, 256)
_SIDE = re.compile(r"^B[MNKHD]$|(?:BLOCK|TILE).*_[MNKHDXY]$", re.IGNORECASE)
"""Matches the name of one extent of a multi-dimensional block."""


@dataclass(frozen=True, kw_only=True)
class _Tuning:
    """Settings from ``@triton.autotune`` and ``@triton.heuristics`` of a kernel.

    Attributes:
        zeroed: parameters whose buffers are zeroed before each call (``reset_to_zero``).
        restored: parameters whose buffers keep their contents between trials (``restore_value``).
        derived: value of each parameter that a heuristic computes, as an expression, by parameter.
        notes: decisions that a person must make.
    """

    configs: Configs = field(default_factory=lambda: Configs(values=()))
    zeroed: tuple[str, ...] = ()
    restored: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def drafted_from_triton(text: str, file: str, entries: Sequence[str] = ()) -> Draft:
    """Draft a family from a Triton source.

    Args:
        file: name of the file in error messages.
        entries: name of the kernel. If empty, the file must have only one kernel that no other kernel calls.

    Raises:
        InvalidInput: the file is not Python or has no kernel, `entries` does not select one of several kernels, or
            selects more than one.
    """
    tree = parsed(text, file)
    kernels = kernels_of(tree)
    kernel = _chosen(kernels, tree, entries)
    tuning, launches = _tuning(kernel, tree), launches_of(kernel, tree)
    tunables = tuple(_tunables(kernel, tuning, launches))
    derived = dict(tuning.derived)
    used = accesses(kernel, kernels)
    pointers = [each for each in kernel.parameters if not each.constant and (each.pointer or each.name in used)]
    names = [each.name for each in tunables]
    taken = {*(each.name for each in pointers), *names, *derived}
    others = [each for each in kernel.parameters if each.name not in taken]
    own = tuple(_fields(others, uses_of(kernel)))
    if all(each.flag for each in own):
        own = tuple(replace(each, flag=each.type != "int") for each in own)
    derived |= dict.fromkeys((each.name for each in others if _STRIDE.search(each.name)), "1")
    grid, made = found_grid(launches, tree, {*(each.name for each in own), *names, *derived, *kind_of("cuda").limits})
    fields = with_usual_values((*(DraftField(name=name, default=UNSTATED, decide=_HOST) for name in made), *own))
    if all(each.flag for each in fields):
        fields = (DraftField(name="N", default=65536, decide="name the problem's extents", guessed=True), *fields)
    extents = [each.name for each in fields if not each.flag]
    derived |= {each.name: _stride(each.name, extents) for each in others if _STRIDE.search(each.name)}
    shapes = Shapes(kernel, extents, {word for each in grid for word in re.findall(r"[A-Za-z_]\w*", each)})
    described = {each.name: block_of(each.name, launches, tree, {*names, *extents, *derived}) for each in pointers}
    matrix, indices = {"M", "N", "K"} <= set(extents), shapes.indices()
    passed = tuple(
        _argument(
            each,
            used.get(each.name, set()),
            tuning,
            dtype="int64" if each.name in indices else "float32",
            shape=PRODUCT.get(_plain(each.name).lower()[:1], shape) if matrix else shape,
        )
        for each in pointers
        for shape in [shapes.shape(each.name) or tuple(extents)[-len(described[each.name]) :]]
    )
    return Draft(
        kind="triton",
        entry=kernel.name,
        fields=fields,
        arguments=passed,
        tunables=tunables,
        macros=(),
        deterministic=not any(
            "atomic_add" in used.get(each.name, ()) and each.name not in indices for each in pointers
        ),
        launches=(DraftLaunch(entry=kernel.name, grid=grid or _guessed_grid(extents, names)),),
        derived=derived,
        starts=_starts(tuning.configs, tunables),
        descriptors={
            argument.name: described[parameter.name]
            for parameter, argument in zip(pointers, passed, strict=True)
            if described[parameter.name] or parameter.described
        },
        notes=(*tuning.notes, *(() if grid else ("the grid (no launch in the file states it)",))),
    )


def _chosen(kernels: Sequence[Kernel], tree: ast.Module, entries: Sequence[str]) -> Kernel:
    names = [each.name for each in kernels]
    if not names:
        raise InvalidInput("FILE", "has no function that is decorated with @triton.jit; decorate the kernel with it")
    if len(entries) > 1:
        remedy = "import each kernel as a separate family, or combine them in one kernel"
        raise InvalidInput("--entry", f"a call of a Triton family launches one kernel, not {len(entries)}; {remedy}")
    for entry in entries:
        if entry not in names:
            raise InvalidInput("--entry", unknown(entry, names, "functions decorated with @triton.jit"))
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
        notes = [f"this expression of the configs was not read or applied: {each}" for each in configs.unread]
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
    """Return `derived` and `notes` of `tuning`, extended with the functions of ``@triton.heuristics``."""
    derived, notes = dict(tuning.derived), list(tuning.notes)
    table = decorator.args[0] if decorator.args else next((each.value for each in decorator.keywords), None)
    pairs = zip(table.keys, table.values, strict=True) if isinstance(table, ast.Dict) else ()
    for key, value in pairs:
        name = str(key.value) if isinstance(key, ast.Constant) else ""
        expression = expression_of(value.body, parameter_of(value)) if isinstance(value, ast.Lambda) else None
        if expression is None:
            notes.append(f"heuristic {name}: write it under [triton.derived], {ast.unparse(value)}")
        derived[name] = expression or "1"
    return {"derived": derived, "notes": tuple(notes)}


def _tunables(kernel: Kernel, tuning: _Tuning, launches: Sequence[Launch]) -> Iterator[DraftTunable]:
    configs = tuning.configs.values
    parameters = {each.name: each for each in kernel.parameters if each.name not in tuning.derived}
    names = dict.fromkeys(name for each in configs for name in each if name in (*parameters, *OPTIONS))
    for name in names:
        values = list(dict.fromkeys(each[name] for each in configs))
        ordered = sorted(values) if all(isinstance(each, int) for each in values) else values
        if len(ordered) > 1 or name in parameters:
            yield DraftTunable(name=name, values=tuple(ordered), default=configs[0][name])
    for each in parameters.values():
        if each.constant and each.name not in names and each.default is None and _TUNABLE.search(each.name):
            yield _guessed(each.name, passed_number(launches, each.name))
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


def _fields(parameters: Sequence[Parameter], uses: Uses) -> Iterator[DraftField]:
    for each in parameters:
        if _STRIDE.search(each.name) or (each.constant and each.default is not None):
            continue
        name = each.name
        if _FLAG.search(name) or (each.constant and name in uses.switches):
            yield DraftField(name=name, type="bool", default=False, decide="its value", flag=True)
        elif name in uses.texts:
            yield DraftField(name=name, type="text", default=uses.texts[name], decide="its value", flag=True)
        elif _FLOAT.search(name):
            default = 1e-5 if "eps" in name.lower() else 1.0
            yield DraftField(name=name, type="float", default=default, decide="its value", flag=True)
        elif each.constant and name.upper() == name and re.search(r"ACTIVATION|MODE|TYPE|KIND|DTYPE|PRECISION", name):
            yield DraftField(name=name, type="text", default="none", decide="its value", flag=True)
        else:
            flag = name not in uses.extents and (each.constant or name in uses.others)
            number = _USUAL_BLOCK if each.constant else UNSTATED
            whole = each.constant and name in uses.blocks
            yield DraftField(name=name, default=number, decide="its usual value", flag=flag, whole_blocks=whole)


def _stride(name: str, extents: Sequence[str]) -> str:
    """Return the probable value of a stride, as an expression, based on its name.

    In ``stride_am``, the last letter names the dimension, and the letter before it names the matrix.
    """
    last = name[-1].upper()
    if {"M", "N", "K"} <= set(extents) and len(name) >= 2 and name[-2] in "abc":
        dims = PRODUCT[name[-2]]
        return "1" if last == dims[1] else dims[1]
    return extents[-1] if extents else "1"


def _argument(
    parameter: Parameter, used: set[str], tuning: _Tuning, *, dtype: str, shape: tuple[str, ...]
) -> DraftArgument:
    """Return the draft of the family argument for a pointer or tensor-descriptor parameter.

    Args:
        used: names of the Triton operations that access the parameter: ``load``, ``store``, ``atomic_add``, …
    """
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
    return DraftArgument(
        name=_plain(name),
        role=role,
        dtype=dtype,
        shape=shape,
        init=name in tuning.zeroed or (atomic and role == "output"),
        decide=decide,
        alignment=16,
        dtype_decide="its dtype (the Triton source does not state it)",
    )


def _plain(name: str) -> str:
    return re.sub(r"(^desc_?|_?(ptr|pointer|desc)$)", "", name, flags=re.IGNORECASE) or name


def _guessed_grid(extents: Sequence[str], tunables: Sequence[str]) -> tuple[str, ...]:
    block = next((name for name in tunables if "BLOCK" in name.upper()), "")
    return (f"ceil_div({extents[0]}, {block})" if block else extents[0],)


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
