"""Drafts a family from a C, C++ or CUDA source. Guesses are marked, because a person must check them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from evo.errors import InvalidInput
from evo.family.importing.access import Access, Accesses
from evo.family.importing.constraints import DraftConstraint, Known, launch_constraints, loop_constraints, shared_arrays
from evo.family.importing.indices import PITCH, Indices
from evo.family.importing.launches import FoundLaunch, found_launch, launched_together
from evo.family.importing.source import (
    Function,
    Macro,
    Parameter,
    Source,
    aliases,
    helpers,
    own_names,
    used_names,
    with_values,
)
from evo.family.importing.syntax import Code, declared, last_name, names_in, operator, part, written
from evo.family.importing.tunables import (
    DraftTunable,
    MacroUses,
    is_fixed,
    is_thread_count,
    is_tunable,
    tunable,
    undefined,
    undefined_names,
)
from evo.family.importing.types import Element, element, plain_type
from evo.family.table import MAX_ENTRIES
from evo.text.suggestion import unknown
from evo.trial import Value

_FIELD = re.compile(
    r"[NMKHWBCSDL]|N[XYZ]|SIZE|LEN|LENGTH|COUNT|BATCH|CHANNELS|HEADS|DIM|"
    r"(?i:(?:[a-z]+_)?(?:HEIGHT|WIDTH|DEPTH|ROWS|COLS|COLUMNS))"
)
_ACROSS = re.compile(r"(?i)N|W|NX|(?:[a-z]+_)?(?:WIDTH|COLS|COLUMNS)")
_RADIUS = re.compile(r"(?:\w+_)?(?:RADIUS|HALO|GHOST|BORDER|APRON)(?:_\w+)?")
_AMOUNT = re.compile(r"PAD|PADDING|DILATION|(?:N_|NUM_)?(?:STEPS|ITERATIONS|ITERS)")
"""Matches names of numbers that, like radii, are not extents of an argument."""

_FLOATS = ("float", "bfloat")
_SHARED = "`shared_memory` under [cuda.launch]: the bytes of the `extern __shared__` array `{}`"
_SEVERAL = "the source launches {} together; if a call consists of all, write a [[cuda.launch]] for each"
_WORDS = re.compile(r"\w+")
PRODUCT = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N"), "out": ("M", "N")}
_WHOLE = [Element(dtype=each) for each in ("int32", "int64", "uint32", "uint64")]
_DEFAULT_THREADS = 256
_USUAL = (1024, 768, 512, *range(1280, 1 << 16, 256))
"""Default values of extents that the source does not state. They differ, so that exchanged extents are detected."""
_USUAL_PITCH = 4096
"""Smallest default value of the distance between two rows. It is larger than usual extents."""
UNSTATED = -1
"""Default value of a field whose value is still to be chosen by `with_usual_values`."""
MOVE = "or move it to the tunables, if results do not depend on it"
"""What a person must decide about a field whose value is defined by a macro."""
ROLES = ("input", "output", "inout", "workspace")
"""Roles that an array argument can have."""


@dataclass(frozen=True, kw_only=True)
class DraftField:
    """A problem field of a draft.

    Attributes:
        argument: parameter that receives the value of the field; empty if there is none.
        decide: what a person must check about the field; empty if nothing.
        flag: True if the field is not an extent of an argument.
    """

    name: str
    default: Value
    argument: str = ""
    decide: str = ""
    type: str = "int"
    flag: bool = False


@dataclass(frozen=True, kw_only=True)
class DraftArgument:
    """An argument of a draft.

    Attributes:
        value: expression for the value of a scalar, or of an input with one element; empty if it is unknown.
        decide: what a person must check about the argument; empty if nothing.
        dtype_decide: what a person must check about its dtype; empty if nothing.
    """

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
class Draft:
    """A family drafted from a source.

    Attributes:
        deterministic: False if the function adds floating-point numbers atomically.
        grid, block: expressions for the launch of a kernel; empty for a C function. Triton kernels have only a grid.
        shared_memory: expression for the dynamic shared memory of a block in bytes; empty for none.
        is_launched: True if grid and block come from a launch in the source.
        derived: expressions of derived values, by name.
        starts: configs to try first.
        descriptors: block extents of arguments that a Triton kernel takes as tensor descriptors, by argument. The
            extents are empty if the source does not state them.
        notes: further decisions that a person must make.
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
    shared_memory: str = ""
    is_launched: bool = False
    constraints: tuple[DraftConstraint, ...] = ()
    derived: Mapping[str, str] = field(default_factory=dict)
    starts: tuple[Mapping[str, Value], ...] = ()
    descriptors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def drafted(source: Source, entry: str | None) -> Draft:
    """Return the family drafted from a source.

    Raises:
        InvalidInput: the source has no function to call, `entry` does not select one of several functions, or a
            parameter has an unknown type.
    """
    function = _chosen(source, entry)
    if len(function.parameters) > MAX_ENTRIES:
        reason = f"{function.name} has {len(function.parameters):,} parameters; at most {MAX_ENTRIES:,} are accepted"
        raise InvalidInput("FILE", f"{reason}. Pass arrays or a structure, or name another function with --entry")
    written_name = function.name
    function, types = _instantiated(source, function)
    elements = {
        each.name: element(each.c_type, types, whose=f"parameter `{each.name}` of {function.name}")
        for each in function.parameters
    }
    body, code = function.body, function.code
    accesses = Accesses(body, helpers(source.code))
    words = used_names(code) | set(_WORDS.findall(function.bounds))
    pointers = [each.name for each in function.parameters if each.pointer]
    macro_uses = MacroUses(code, source.macros, pointers)
    used = [
        macro
        for macro in source.macros
        if macro.name in words and macro.name not in macro_uses.constants
        if not macro.alias or macro_uses.of(macro.name).cases
    ]
    whole = [
        each.name
        for each in function.parameters
        if elements[each.name] in _WHOLE and (not each.pointer or _is_read_once(each, body, accesses))
    ]
    offsets = _offsets(code)
    radii = _radii(whole, used, offsets)
    steps = {each.name for each in used if macro_uses.of(each.name).step}
    fixed = [
        name
        for name, values in _definitions(used).items()
        if is_fixed(name, values, macro_uses.of(name)) and not _is_field(name)
    ]
    own = own_names(source.code) | set(types)
    fields = _fields(function, used, radii, steps, fixed, whole=whole, own=own)
    names = {each.name for each in fields}
    extents = [each.name for each in fields if not each.flag]
    defaults = {name: each.default for each in fields for name in (each.name, each.argument)}
    sizes = {name: value for name, value in defaults.items() if isinstance(value, int)}
    tunables = tuple(
        tunable(name, values, macro_uses.of(name), cuda=source.language == "cuda", extents=sizes)
        for name, values in _definitions(used).items()
        if name not in names
    )
    tunables += tuple(undefined(f"{function.bounds} {body.text}", names | own | {each.name for each in source.macros}))
    passed = {each.argument: each.name for each in reversed(fields)}
    indices = Indices(body, extents, passed, fixed)
    arguments = tuple(
        _argument(
            each,
            elements[each.name],
            extents=extents,
            passed=passed,
            radii=radii,
            offsets=offsets,
            body=body,
            indices=indices,
            accesses=accesses,
        )
        for each in function.parameters
    )
    launch, constraints = FoundLaunch(), list[DraftConstraint]()
    known = Known(fields={each.name: each.default for each in fields}, tunables=tunables)
    block: tuple[str, ...] = ()
    if source.language == "cuda":
        meanings = {each: each for each in (*names, *(each.name for each in tunables))}
        numbers = {each.name: str(each.value) for each in source.macros}
        parameters = [each.name for each in function.parameters]
        launch = found_launch(source.code, written_name, parameters, {**numbers, **meanings, **passed})
        fields = tuple(_with_value(each, launch) for each in fields)
        block = launch.block or _block(function, tunables, names)
        bounds = function.bounds.replace("/", "//")
        constraints += launch_constraints(known, block=block, bounds=bounds, body=body, launch=launch)
    constraints += loop_constraints(known, macro_uses, body, passed)
    shared = _dynamic_array(body) if block and not launch.shared_memory else ""
    several = ", ".join(launched_together(source.code, written_name)) if source.language == "cuda" else ""
    atomics = [each for each in arguments if each.init and each.dtype.startswith(_FLOATS)]
    return Draft(
        kind="cuda" if source.language == "cuda" else "cpu",
        entry=function.name,
        notes=(*([_SHARED.format(shared)] if shared else []), *([_SEVERAL.format(several)] if several else [])),
        fields=fields,
        arguments=arguments,
        tunables=tunables,
        macros=(*(each.name for each in fields if not each.argument), *(each.name for each in tunables)),
        openmp=source.language != "cuda" and "#pragma omp" in source.code.text,
        deterministic=not atomics,
        grid=launch.grid or (_grid(extents, block, tunables) if block else ()),
        block=block,
        shared_memory=launch.shared_memory,
        is_launched=bool(launch.grid and launch.block),
        constraints=tuple(constraints),
    )


def with_roles(draft: Draft, roles: Mapping[str, str], taken: Collection[str]) -> Draft:
    """Return the draft with the roles that the user states.

    An output with an uncertain role becomes an inout if the reference function takes it.

    Args:
        roles: stated roles, by argument.
        taken: names of the arguments that the reference function takes.

    Raises:
        InvalidInput: a role is unknown, or is stated for a name that is not an array.
    """
    arrays = [each.name for each in draft.arguments if each.role != "scalar"]
    for name, role in roles.items():
        if name not in arrays:
            raise InvalidInput("--role", unknown(name, arrays, "arrays"))
        if role not in ROLES:
            raise InvalidInput("--role", f"{name}={role}: {unknown(role, ROLES, 'roles')}")
    found = list[DraftArgument]()
    for each in draft.arguments:
        if each.name in roles:
            found.append(replace(each, role=roles[each.name], init=False, decide=""))
        elif each.role == "output" and each.decide and each.name in taken:
            found.append(replace(each, role="inout", init=False, decide="its role (the reference reads its contents)"))
        else:
            found.append(each)
    return replace(draft, arguments=tuple(found))


def _is_field(name: str) -> bool:
    """Return True if the name of a macro looks like an extent of the problem, e.g. ``ROWS`` or ``image_width``."""
    return _FIELD.fullmatch(name) is not None and not is_tunable(name)


def _definitions(macros: Sequence[Macro]) -> dict[str, list[int]]:
    """Return the values of each macro, by name: one value for each definition of the macro."""
    values: dict[str, list[int]] = {}
    for each in macros:
        values.setdefault(each.name, []).append(each.value)
    return values


def _instantiated(source: Source, function: Function) -> tuple[Function, dict[str, str]]:
    """Return the function with its template arguments, under its full name, and a dict from alias to type.

    The template arguments are those of an instantiation or a launch in the source. A missing argument gets the
    parameter's default or, without a default, ``float`` for a type and ``1`` for a value.
    """
    types = aliases(source.code)
    given, arguments = source.instance(function), dict[str, str]()
    for place, parameter in enumerate(function.template):
        head, _, default = (each.strip() for each in parameter.partition("="))
        is_type = head.startswith(("typename", "class"))
        name = head.split()[-1]
        arguments[name] = given[place] if place < len(given) else default or ("float" if is_type else "1")
        if is_type:
            types[name] = plain_type(arguments[name])
    name = f"{source.namespace(function)}{function.name}<{', '.join(arguments.values())}>"
    found = source.only(function, arguments)
    return replace(found, name=name if arguments else found.name), types


def _chosen(source: Source, entry: str | None) -> Function:
    names = [each.name for each in source.functions]
    if not names:
        rule = "It must return void, be outside namespaces and classes, and not be static, inline or a template"
        defined = (declared(part(each, "declarator")) for each in source.code.nodes("function_definition"))
        if own := [name for name in map(last_name, defined) if name not in ("", "main")]:
            rule += f". Add one that calls yours, e.g. `void entry(…) {{ {own[-1]}(…); }}`; a result that `{own[-1]}` "
            rule += "returns can be an output (`int *status`)"
        kind = "kernel (`__global__`)" if source.language == "cuda" else f"function that can be the entry. {rule}"
        raise InvalidInput("FILE", f"has no {kind}")
    if entry is None and len(names) > 1:
        raise InvalidInput(
            "--entry", f"is missing, but the source has {', '.join(names)}; choose one, e.g. --entry {names[0]}"
        )
    for each in source.functions:
        if entry in (None, each.name):
            return each
    raise InvalidInput("--entry", unknown(str(entry), names, "functions of the source"))


def _radii(whole: Sequence[str], macros: Sequence[Macro], offsets: Collection[str]) -> dict[str, str]:
    """Return the problem field for each stencil radius, by the radius's name in the source.

    A radius is recognised by its name, or by a loop that begins at the negative radius.

    Args:
        whole: names of the parameters that are whole numbers.
        offsets: see `_offsets`.
    """
    defined = dict.fromkeys(each.name for each in macros)
    return {
        name: name if name in defined else name.upper()
        for name in dict.fromkeys([*defined, *whole])
        if _RADIUS.fullmatch(name.upper()) or (not _FIELD.fullmatch(name.upper()) and name in offsets)
    }


def _offsets(code: Code) -> dict[str, set[str]]:
    """Return the loop variables that begin at a negative radius, by the name of the radius."""
    found: dict[str, set[str]] = {}
    for node in code.nodes("init_declarator", "assignment_expression"):
        value = part(node, "value") or part(node, "right")
        around = (each for each in code.ancestors(node) if each.type not in ("declaration", "comma_expression"))
        loop = next(around, node)
        if value is not None and operator(value) == "-" and loop.type == "for_statement":
            variable = written(declared(part(node, "declarator") or part(node, "left")))
            for name in names_in(value)[:1] if part(value, "argument") else ():
                found.setdefault(name, set()).add(variable)
    return found


def _dynamic_array(body: Code) -> str:
    """Return the name of the shared array whose size the launch states; empty if there is none."""
    arrays = [each for each in shared_arrays(body) if any(written(part) == "extern" for part in each.children)]
    return written(declared(part(arrays[0], "declarator"))) if arrays else ""


def _is_read_once(parameter: Parameter, body: Code, accesses: Accesses) -> bool:
    """Return True for a pointer to a single number that is only read. Fortran passes extents this way."""
    return _elements(parameter.name, body) == 1 and (parameter.constant or accesses.of(parameter).kinds == "r")


def _fields(
    function: Function,
    macros: Sequence[Macro],
    radii: Mapping[str, str],
    steps: Collection[str],
    fixed: Collection[str],
    *,
    whole: Sequence[str],
    own: Collection[str],
) -> tuple[DraftField, ...]:
    """Return the problem fields: macros and integer parameters whose names look like extents or radii.

    Args:
        steps: macros that are the steps of loops. They become tunables, not fields.
        fixed: macros on whose value the results probably depend (see `is_fixed`).
        whole: names of the parameters that are whole numbers.
        own: names that the source declares, which are not macros.
    """
    known = {
        each.name: DraftField(
            name=each.name,
            default=each.value,
            flag=each.name in radii or each.name in fixed,
            decide=MOVE if each.guarded or each.name in fixed else "",
        )
        for each in reversed(macros)
        if each.name in radii or each.name in fixed or (_is_field(each.name) and each.name not in steps)
    }
    fields = list(reversed(known.values()))
    taken = {each.name for each in macros}
    for parameter in whole:
        name = parameter.upper()
        if name not in taken:
            flag = parameter in radii or _AMOUNT.fullmatch(name) is not None
            default = 1 if flag else UNSTATED
            fields.append(
                DraftField(name=name, default=default, argument=parameter, decide="its usual value", flag=flag)
            )
    taken |= {each.name for each in fields} | set(own)
    stated = " ".join(extent for each in function.parameters for extent in each.extents)
    fields += [
        DraftField(name=name, default=UNSTATED, decide="its usual value, which the source does not define")
        for name in undefined_names(f"{stated} {function.body.text}", taken)
        if _is_field(name)
    ]
    if all(each.flag for each in fields):
        fields.insert(
            0, DraftField(name="N", default=65536, decide="the fields of the problem (the source shows no extents)")
        )
    largest = max((each.value for each in macros if each.name not in known and each.value <= _USUAL[0]), default=1)
    return with_usual_values(fields, largest if largest > 0 and largest & (largest - 1) == 0 else 1)


def with_usual_values(fields: Sequence[DraftField], step: int = 1) -> tuple[DraftField, ...]:
    """Return the fields with a usual default value for each field that has none (`UNSTATED`).

    Each chosen value differs from all other default values.

    Args:
        step: the chosen values are multiples of this number.
    """
    taken = {each.default for each in fields if each.default != UNSTATED}
    found = list[DraftField]()
    for each in fields:
        default = each.default
        if default == UNSTATED:
            least = _USUAL_PITCH if PITCH.fullmatch(each.name) else 0
            usual = (-(-value // step) * step for value in _USUAL if value >= least)
            default = next(value for value in usual if value not in taken)
            taken.add(default)
        found.append(replace(each, default=default))
    return tuple(found)


def _with_value(each: DraftField, launch: FoundLaunch) -> DraftField:
    """Return a field with the value that a launch in the source passes, if the launch states one."""
    value = launch.values.get(each.argument, 0)
    return replace(each, default=value, decide="") if each.argument and value > 0 else each


def _elements(name: str, body: Code) -> int:
    """Return the number of elements to which a pointer refers if every use is ``*name`` or ``name[NUMBER]``; else 0."""
    last = [-1]
    for node in body.uses.get(name, ()):
        around = body.parent(node)
        index = written(part(around, "indices")).strip("[]") if part(around, "argument") == node else ""
        if around.type == "pointer_expression" and operator(around) == "*":
            index = "0"
        if around.type not in ("pointer_expression", "subscript_expression") or not index.isdecimal():
            return 0
        last.append(int(index))
    return max(last) + 1


def _words_in_indices(name: str, body: Code) -> set[str]:
    """Return the names that occur in an argument's indices."""
    words, end = set[str](), 0
    for each in body.uses.get(name, ()):
        around = body.parent(each)
        index = part(around, "indices") if part(around, "argument") == each else None
        if index is not None and index.start_byte >= end:  # otherwise, the node is inside an earlier index
            words.update(names_in(index))
            end = index.end_byte
    return words


def _argument(
    parameter: Parameter,
    given: Element,
    *,
    extents: Sequence[str],
    passed: Mapping[str, str],
    radii: Mapping[str, str],
    offsets: Mapping[str, set[str]],
    body: Code,
    indices: Indices,
    accesses: Accesses,
) -> DraftArgument:
    """Return the argument for a parameter.

    Args:
        extents: names of the problem fields that are extents.
        passed: problem field whose value a scalar parameter receives, by parameter.
        radii: see `_radii`.
        offsets: see `_offsets`.
    """
    dtype = given.dtype
    if not parameter.pointer:
        if given.components > 1:
            reason = f"parameter `{parameter.name}` has the type `{parameter.c_type}`, which is passed by value"
            raise InvalidInput("FILE", f"{reason}; pass its {given.components} components as scalars, or a pointer")
        value = passed.get(parameter.name)
        decide = "" if value else "its value"
        return DraftArgument(name=parameter.name, role="scalar", dtype=dtype, value=value or "1", decide=decide)
    guess = tuple(extents)
    if {"M", "N", "K"} <= set(extents):
        guess = PRODUCT.get(parameter.name.lower(), guess)
    shape = indices.shape(parameter.name, guess)
    words = _words_in_indices(parameter.name, body) if radii else set[str]()
    for radius, field_name in radii.items():
        if radius in words:
            shape = _with_halo(shape, words - {radius}, offsets.get(radius, set()), field_name)
    shape = _declared_shape(parameter, shape, passed)
    if not parameter.extents and (elements := _elements(parameter.name, body)):
        shape = (str(elements),)
    role, init, decide = _role(parameter, accesses, dtype)
    return DraftArgument(
        name=parameter.name,
        role=role,
        dtype=dtype,
        value=passed.get(parameter.name, ""),
        shape=(*shape, str(given.components)) if given.components > 1 else shape,
        init=init,
        decide=decide,
        alignment=given.alignment,
    )


def _declared_shape(parameter: Parameter, guessed: tuple[str, ...], passed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the shape that the brackets of a parameter declare. Extents that are missing come from `guessed`."""
    stated = [with_values(each, passed) for each in parameter.extents]
    stated = [re.sub(r"(?<!/)/(?!/)", "//", each) for each in stated]
    inner = set(_WORDS.findall(" ".join(stated)))
    if any(re.search(r"[^\w\s*/+()-]", each) for each in stated) or not any(stated):
        return guessed
    outer = [each for each in guessed if each not in inner] or list(guessed)
    return tuple(extent for each in stated for extent in ([each] if each else outer))


def _with_halo(shape: tuple[str, ...], words: set[str], offsets: set[str], name: str) -> tuple[str, ...]:
    """Return the shape of an argument that is indexed with a radius, including a halo.

    An argument that is indexed only by offsets from -r to +r, such as a stencil's weights, has 2r + 1 elements per
    dimension. Other arguments get a border of r elements on each side.

    Args:
        shape: shape without the halo.
        words: names in the argument's indices, except the radius.
        offsets: names of loop variables that begin at the negative radius.
        name: problem field of the radius.
    """
    if words <= offsets:
        return (f"2 * {name} + 1",) * max(1, len(words))
    return tuple(f"{extent} + 2 * {name}" for extent in shape)


def _role(  # noqa: PLR0911 - one return per kind of access
    parameter: Parameter, accesses: Accesses, dtype: str
) -> tuple[str, bool, str]:
    """Return an argument's role, whether the buffer must be zero before a call, and what a person must check."""
    found = Access(kinds="r") if parameter.constant else accesses.of(parameter)
    called = f"{found.unknown}(), which the file does not define,"
    match tuple(found.kinds):
        case ():
            return "output", False, "its role: output, inout or workspace"
        case kinds if "a" in kinds:
            return "output", True, "whether it begins as zeros"
        case ("u",):
            return "output", False, f"its role: output, inout, input or workspace; it depends on {called[:-1]}"
        case ("r",) | ("w", *_) as kinds:
            return "input" if kinds == ("r",) else "output", False, ""
        case ("r", "u"):
            return "inout", False, f'whether {called} changes it; else role = "input"'
        case ("c", *_) if not dtype.startswith(_FLOATS):
            return "output", True, 'whether it begins as zeros, or is role = "inout"'
        case _:
            return "inout", False, 'whether it is read before it is written; else role = "output"'


def _block(function: Function, tunables: Sequence[DraftTunable], fields: Collection[str]) -> tuple[str, ...]:
    names = [each.name for each in tunables]
    known = all(each in names or each in fields or each.isdigit() for each in _WORDS.findall(function.bounds))
    factors = [each.strip() for each in function.bounds.split("*")] if function.bounds else []
    if factors and all(each in names or each.isdigit() for each in factors):
        two = "threadIdx.y" in function.body.text and len(factors) == 2
        return tuple(factors) if two else (" * ".join(factors),)
    if known and re.fullmatch(r"[\w\s*/+()-]+", function.bounds):
        return (function.bounds.replace("/", "//"),)
    named = sorted(filter(is_thread_count, names), key=lambda name: name[-1] in "yY")
    if "threadIdx.y" in function.body.text and named:
        return (named[0], named[1] if len(named) > 1 else named[0])
    return (named[0],) if named else (str(_DEFAULT_THREADS),)


def _grid(fields: Sequence[str], block: Sequence[str], tunables: Sequence[DraftTunable]) -> tuple[str, ...]:
    if len(block) == 2 and len(fields) >= 2:
        across = next((each for each in fields if _ACROSS.fullmatch(each)), fields[-1])
        down = next((each for each in fields if each != across), fields[0])
        return (f"ceil_div({across}, {block[0]})", f"ceil_div({down}, {block[1]})")
    items = [each.name for each in tunables if re.search(r"ITEMS|PER_THREAD|VEC", each.name)]
    return (f"ceil_div({' * '.join(fields)}, {' * '.join([*block, *items])})",)
