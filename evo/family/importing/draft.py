"""Drafts a family from a source: reads what the source states, and makes guesses that a person must check."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evo.errors import InvalidInput
from evo.family.importing.source import Function, Macro, Parameter, Source
from evo.text.suggestion import unknown
from evo.trial import Value

_DTYPES = {
    "double": "float64",
    "float": "float32",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3",
    "__nv_fp8_e5m2": "float8_e5m2",
    "bool": "bool",
    "char": "int8",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "unsigned short": "uint16",
    "int": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "long": "int64",
    "long long": "int64",
    "unsigned long": "uint64",
    "unsigned long long": "uint64",
    "size_t": "uint64",
}
_FIELD = re.compile(
    r"[NMKHWBCSDL]|N[XYZ]|HEIGHT|WIDTH|DEPTH|ROWS|COLS|COLUMNS|SIZE|LEN|LENGTH|COUNT|BATCH|CHANNELS|HEADS|DIM"
)
_RADIUS = re.compile(r"(?:\w+_)?(?:RADIUS|HALO|GHOST|BORDER|APRON)(?:_\w+)?")
_AMOUNT = re.compile(r"PAD|PADDING|DILATION|(?:N_|NUM_)?(?:STEPS|ITERATIONS|ITERS)")
"""Matches names of numbers that are not extents of an argument, as are radii."""

_THREADS = re.compile(r"(?:N_?|NUM_?)?THREADS(?:_PER_BLOCK)?|BLOCK(?:_?SIZE|_?DIM)?|TPB|BLOCK_?[XY]|TILE(?:_?[XY])?")
_TUNABLE = re.compile(r"TILE|BLOCK|THREADS|WARPS|UNROLL|ITEMS|VEC|STAGES|STEP|CHUNK|SPLIT|PREFETCH")
_BOUNDS = r"__launch_bounds__\s*\([^)]*\)"
_CHANGES = re.compile(r"\s*(?:(?:[-+*/%&|^]|<<|>>)=|\+\+|--)")
_WRITES = re.compile(r"\s*=(?!=)")
PRODUCT = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N"), "out": ("M", "N")}
_DEFAULT_THREADS = 256


@dataclass(frozen=True, kw_only=True)
class DraftField:
    """A problem field.

    Attributes:
        argument: parameter that passes it, if the source has one.
        flag: True if it is not an extent of an argument.
    """

    name: str
    default: Value
    argument: str = ""
    decide: str = ""
    type: str = "int"
    flag: bool = False


@dataclass(frozen=True, kw_only=True)
class DraftArgument:
    """An argument; `decide` and `dtype_decide` name the points that a person must check."""

    name: str
    role: str
    dtype: str
    shape: tuple[str, ...] = ()
    value: str = ""
    init: bool = False
    decide: str = ""
    alignment: int = 0
    dtype_decide: str = ""


@dataclass(frozen=True, kw_only=True)
class DraftTunable:
    """A tunable with the values around its default."""

    name: str
    values: tuple[Value, ...]
    default: Value
    decide: str = ""


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A family drafted from a source.

    Attributes:
        deterministic: False if it adds floats atomically.
        grid, block: launch of a CUDA or Triton kernel; empty for a C function. Triton chooses the block.
        derived: derived values by name.
        starts: configs to try first.
        descriptors: arguments that a Triton kernel takes as tensor descriptors, with the extents of their blocks; empty
            extents: the source does not say them.
        notes: further points that a person must decide.
    """

    kind: str
    entry: str
    fields: tuple[DraftField, ...]
    arguments: tuple[DraftArgument, ...]
    tunables: tuple[DraftTunable, ...]
    macros: tuple[str, ...]
    openmp: bool = False
    deterministic: bool = True
    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[Mapping[str, Value], ...] = ()
    descriptors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def drafted(source: Source, entry: str | None) -> Draft:
    """Return the family drafted from a source.

    Raises:
        InvalidInput: the source has no function to call, `entry` does not choose one of several, or a parameter has an
            unknown type.
    """
    function = _chosen(source, entry)
    code = _code(source, function)
    used = [macro for macro in source.macros if re.search(rf"\b{macro.name}\b", code)]
    radii = _radii(function, used, code)
    fields = _fields(function, used, radii)
    names = [each.name for each in fields]
    extents = [each.name for each in fields if not each.flag]
    tunables = tuple(_tunable(macro, source.language) for macro in used if macro.name not in names)
    tunables += tuple(_undefined(function, source, {*names, *(each.name for each in source.macros)}))
    arguments = tuple(_argument(each, function, fields, radii) for each in function.parameters)
    block = _block(function, tunables) if source.language == "cuda" else ()
    atomics = [each for each in arguments if each.init and each.dtype.startswith("float")]
    return Draft(
        kind="cuda" if source.language == "cuda" else "cpu",
        entry=_entry(function),
        fields=fields,
        arguments=arguments,
        tunables=tunables,
        macros=(*(each.name for each in fields if not each.argument), *(each.name for each in tunables)),
        openmp=source.language != "cuda" and "#pragma omp" in source.plain,
        deterministic=not (atomics and "atomic" in function.body),
        grid=_grid(extents, block, tunables) if block else (),
        block=block,
    )


def _code(source: Source, function: Function) -> str:
    """Return the code of a function and of all it may use, without macro definitions and other entry functions."""
    text = source.plain
    for other in source.functions:
        if other is not function:
            text = text.replace(other.body, "")
    text = f"{re.sub(_BOUNDS, '', text)}\n{function.bounds}"
    return "\n".join(line for line in text.split("\n") if not re.match(r"\s*#\s*(define|ifndef|ifdef|undef)\b", line))


def _chosen(source: Source, entry: str | None) -> Function:
    names = [each.name for each in source.functions]
    kind = "kernel (`__global__`)" if source.language == "cuda" else "function that returns void and is not static"
    if not names:
        raise InvalidInput("FILE", f"has no {kind}: nothing can be called")
    if entry is None and len(names) > 1:
        raise InvalidInput(
            "--entry", f"is missing: the source has {', '.join(names)}; name one, e.g. --entry {names[0]}"
        )
    for each in source.functions:
        if entry in (None, each.name):
            return each
    raise InvalidInput("--entry", unknown(str(entry), names, "functions of the source"))


def _radii(function: Function, macros: Sequence[Macro], code: str) -> dict[str, str]:
    """Return the radii of stencils: the name in the source, and the name of the problem field.

    A radius is recognised by its name, or by a loop that begins at the negative radius.
    """
    named = [each.name for each in macros]
    named += [each.name for each in function.parameters if _is_whole(each, function)]
    return {
        name: name if any(each.name == name for each in macros) else name.upper()
        for name in named
        if _RADIUS.fullmatch(name.upper())
        or (not _FIELD.fullmatch(name.upper()) and re.search(rf"\bfor\s*\([^;]*=\s*-\s*\(?\s*{name}\b", code))
    }


def _is_whole(parameter: Parameter, function: Function) -> bool:
    return not parameter.pointer and _dtype(parameter, function) in ("int32", "int64", "uint32", "uint64")


def _fields(function: Function, macros: Sequence[Macro], radii: Mapping[str, str]) -> tuple[DraftField, ...]:
    """Return the problem fields: macros and whole-number parameters with names like extents or radii."""
    fields = [
        DraftField(name=each.name, default=each.value, flag=each.name in radii)
        for each in macros
        if _FIELD.fullmatch(each.name) or each.name in radii
    ]
    taken = {each.name for each in macros}
    for each in function.parameters:
        name = each.name.upper()
        if _is_whole(each, function) and name not in taken:
            flag = each.name in radii or _AMOUNT.fullmatch(name) is not None
            default = 1 if flag else 1024
            fields.append(
                DraftField(name=name, default=default, argument=each.name, decide="its usual value", flag=flag)
            )
    undefined = dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9_]*\b", function.body))
    for name in undefined:
        if _FIELD.fullmatch(name) and name not in taken | {each.name for each in fields}:
            fields.append(DraftField(name=name, default=1024, decide="the source does not define it: its usual value"))
    if all(each.flag for each in fields):
        fields.insert(0, DraftField(name="N", default=65536, decide="the source shows no extents: name its problem"))
    return tuple(fields)


def _tunable(macro: Macro, language: str) -> DraftTunable:
    value = macro.value
    if value in (0, 1) and not re.search(r"UNROLL|ITEMS|VEC|TILE|BLOCK|STEP", macro.name):
        return DraftTunable(name=macro.name, values=(0, 1), default=value)
    if value < 1 or value & (value - 1):
        return DraftTunable(name=macro.name, values=(value,), default=value, decide="further values")
    around = [max(1, value * 2**power // 4) for power in range(5)]
    if language == "cuda" and _THREADS.fullmatch(macro.name) and value >= 32:
        around = [each for each in around if 32 <= each <= 1024]
    return DraftTunable(name=macro.name, values=tuple(dict.fromkeys(around)), default=value)


def _undefined(function: Function, source: Source, taken: set[str]) -> Iterator[DraftTunable]:
    """Yield tunables for names that look like macros of a source that is compiled with ``-D``."""
    used = f"{function.bounds} {function.body}"
    for name in dict.fromkeys(re.findall(r"\b[A-Z][A-Z0-9_]*\b", used)):
        if (
            _TUNABLE.search(name)
            and name not in taken
            and not re.search(rf"\b(?:constexpr|const|enum)\b[^;]*\b{name}\b", source.plain)
        ):
            values = (64, 128, 256, 512) if "THREADS" in name or name.startswith("BLOCK") else (1, 2, 4, 8)
            decide = "the source does not define it: its values"
            yield DraftTunable(name=name, values=values, default=values[-2], decide=decide)


def _argument(
    parameter: Parameter, function: Function, fields: Sequence[DraftField], radii: Mapping[str, str]
) -> DraftArgument:
    dtype, names = _dtype(parameter, function), [each.name for each in fields if not each.flag]
    if not parameter.pointer:
        passed = next((each.name for each in fields if each.argument == parameter.name), None)
        decide = "" if passed else "its value"
        return DraftArgument(name=parameter.name, role="scalar", dtype=dtype, value=passed or "1", decide=decide)
    shape = tuple(names)
    if {"M", "N", "K"} <= set(names):
        shape = PRODUCT.get(parameter.name.lower(), shape)
    for radius, field_name in radii.items():
        shape = _with_halo(shape, parameter, function, radius, field_name)
    role, init, decide = _role(parameter, function, dtype)
    return DraftArgument(
        name=parameter.name,
        role=role,
        dtype=dtype,
        shape=shape,
        init=init,
        decide=decide,
    )


def _with_halo(
    shape: tuple[str, ...], parameter: Parameter, function: Function, radius: str, name: str
) -> tuple[str, ...]:
    """Return the shape enlarged by a halo if the argument is indexed with a radius; otherwise the shape unchanged.

    An argument that is indexed only by offsets from -r to +r, such as a stencil's weights, has 2r + 1 elements per
    dimension. Other arguments get a border of r elements on each side.

    Args:
        name: problem field of the radius.
    """
    indices = [
        function.body[found.end() : _closing(function.body, found.end()) - 1]
        for found in re.finditer(rf"\b{re.escape(parameter.name)}\s*\[", function.body)
    ]
    words = {word for index in indices for word in re.findall(r"[A-Za-z_]\w*", index)}
    if radius not in words:
        return shape
    offsets = re.findall(rf"\b(\w+)\s*=\s*-\s*\(?\s*{radius}\b", function.body)
    if words - {radius} <= set(offsets):
        return (f"2 * {name} + 1",) * max(1, len(words - {radius}))
    return tuple(f"{extent} + 2 * {name}" for extent in shape)


def _role(parameter: Parameter, function: Function, dtype: str) -> tuple[str, bool, str]:
    """Return the role, True if the buffer must be zero before a call, and what a person must check."""
    if parameter.constant:
        return "input", False, ""
    name, body = re.escape(parameter.name), function.body
    if re.search(rf"\batomic\w+\s*\(\s*&?\s*{name}\b", body):
        return "output", True, "whether it begins as zeros"
    first = next(re.finditer(rf"\b{name}\s*\[", body), None)
    if first is None:
        return "output", False, "its role: output, inout or workspace"
    after = body[_closing(body, first.end()) :]
    if _WRITES.match(after) and not re.search(rf"\b{name}\s*\[", after.split(";")[0]):
        return "output", False, ""
    if _CHANGES.match(after) and not dtype.startswith("float"):
        return "output", True, 'whether it begins as zeros, or is role = "inout"'
    return "inout", False, 'whether it is read before it is written; else role = "output"'


def _closing(text: str, start: int) -> int:
    depth = 1
    for index in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[index], 0)
        if not depth:
            return index + 1
    return len(text)


def _dtype(parameter: Parameter, function: Function) -> str:
    c_type = parameter.c_type.removeprefix("std::").removeprefix("cuda::std::")
    if any(each.split()[-1] == c_type for each in function.template if each.startswith(("typename", "class"))):
        return "float32"
    fixed = re.fullmatch(r"(u?int(?:8|16|32|64))_t", c_type)
    if fixed is None and c_type not in _DTYPES:
        reason = f"parameter `{parameter.name}` of {function.name} has the type `{c_type}`, which no argument can have"
        raise InvalidInput("FILE", f"{reason}; accepted: {', '.join(_DTYPES)}, (u)int8_t to (u)int64_t, and pointers")
    return fixed[1] if fixed else _DTYPES[c_type]


def _entry(function: Function) -> str:
    if not function.template:
        return function.name
    given = ["float" if each.startswith(("typename", "class")) else "1" for each in function.template]
    return f"{function.name}<{', '.join(given)}>"


def _block(function: Function, tunables: Sequence[DraftTunable]) -> tuple[str, ...]:
    names = [each.name for each in tunables]
    factors = [each.strip() for each in function.bounds.split("*")] if function.bounds else []
    if factors and all(each in names or each.isdigit() for each in factors):
        two = "threadIdx.y" in function.body and len(factors) == 2
        return tuple(factors) if two else (" * ".join(factors),)
    if function.bounds and re.fullmatch(r"[\w\s*/+()-]+", function.bounds):
        return (function.bounds.replace("/", "//"),)
    named = [name for name in names if _THREADS.fullmatch(name)]
    if "threadIdx.y" in function.body and named:
        return (named[0], named[1] if len(named) > 1 else named[0])
    return (named[0],) if named else (str(_DEFAULT_THREADS),)


def _grid(fields: Sequence[str], block: Sequence[str], tunables: Sequence[DraftTunable]) -> tuple[str, ...]:
    if len(block) == 2 and len(fields) >= 2:
        across = next((each for each in ("N", "W", "WIDTH", "COLS", "COLUMNS", "NX") if each in fields), fields[-1])
        down = next((each for each in fields if each != across), fields[0])
        return (f"ceil_div({across}, {block[0]})", f"ceil_div({down}, {block[1]})")
    items = [each.name for each in tunables if re.search(r"ITEMS|PER_THREAD|VEC", each.name)]
    return (f"ceil_div({' * '.join(fields)}, {' * '.join([*block, *items])})",)
