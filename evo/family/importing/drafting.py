"""Drafts a family from a C, C++ or CUDA source. Guesses are marked, because a person must check them."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from evo.errors import InvalidInput
from evo.family.importing.access import Access, Accesses
from evo.family.importing.constraints import DraftConstraint, Known, launch_constraints, loop_constraints, shared_arrays
from evo.family.importing.draft import (
    MOVE,
    PRODUCT,
    UNSTATED,
    USUAL,
    Draft,
    DraftArgument,
    DraftField,
    DraftLaunch,
    with_usual_values,
)
from evo.family.importing.host.arguments import launched, of_call, plain_variables
from evo.family.importing.host.call import Step, joined, steps_of, together, wrapper
from evo.family.importing.host.launches import (
    FoundLaunch,
    computed_values,
    found_launch,
    launched_together,
    named_constants,
    read_launch,
)
from evo.family.importing.indices import Indices
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
    MacroUse,
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

_FIELD = re.compile(
    r"[NMKHWBCSDL]|N[XYZ]|SIZE|LEN|LENGTH|COUNT|BATCH|CHANNELS|HEADS|DIM|"
    r"(?i:(?:[a-z]+_)?(?:HEIGHT|WIDTH|DEPTH|ROWS|COLS|COLUMNS))"
)
_ACROSS = re.compile(r"(?i)N|W|NX|(?:[a-z]+_)?(?:WIDTH|COLS|COLUMNS)")
_RADIUS = re.compile(r"(?:\w+_)?(?:RADIUS|HALO|GHOST|BORDER|APRON)(?:_\w+)?")
_AMOUNT = re.compile(r"PAD|PADDING|DILATION|(?:N_|NUM_)?(?:STEPS|ITERATIONS|ITERS)")
"""Matches names of numbers that, like radii, are not extents of an argument."""

_FLOATS = ("float", "bfloat")
TUNED = "TUNED_"
"""Prefix of a tunable that replaces a constant of the host code as a template argument."""
_SHARED = "`shared_memory` of the launch: the bytes of the `extern __shared__` array `{}`"
_SEVERAL = "the source launches {} together; if one call must launch all of them, import with {}"
_REPEATED = "how often {} is launched per call (the source launches it in a loop); write a [[cuda.launch]] per launch"
_WORDS = re.compile(r"\w+")
_WHOLE = [Element(dtype=each) for each in ("int32", "int64", "uint32", "uint64")]
_DEFAULT_THREADS = 256


def drafted(source: Source, entries: Sequence[str] = ()) -> Draft:
    """Draft a family from a source.

    Args:
        entries: functions that one call runs. Several functions run in the order in which a function of the source
            launches them, or in the given order if no function launches all of them. If empty, the source must have
            only one function to call, or a host function whose kernels use one another's results.

    Raises:
        InvalidInput: the source has no function to call, `entries` does not select one of several functions, or a
            parameter has an unknown type.
    """
    launches = together(source, entries) if source.language == "cuda" and len(entries) != 1 else []
    chosen = _chosen(source, [each.kernel for each in launches] or entries)
    instances = [_instantiated(source, each) for each in chosen]
    kernels = [(each.name, found) for each, (found, _) in zip(chosen, instances, strict=True)]
    steps, elements = steps_of(kernels, launches), dict[str, Element]()
    function = joined(source, steps) if len(steps) > 1 else steps[0].kernel
    _check_parameters(function)
    for step, (kernel, types) in zip(steps, instances, strict=True):
        for name, each in zip(step.arguments, kernel.parameters, strict=True):
            if name not in elements:
                elements[name] = element(each.c_type, types, whose=f"parameter `{each.name}` of {kernel.name}")
    return _joined_draft(source, function, steps, elements, own=set(instances[0][1]))


def _extent(text: str, values: Mapping[str, str]) -> str:
    """Return an extent after replacing the names of arguments with their values."""
    return values.get(text) or with_values(text, {name: f"({value})" for name, value in values.items()})


def _check_parameters(function: Function) -> None:
    if len(function.parameters) > MAX_ENTRIES:
        reason = f"{function.name} has {len(function.parameters):,} parameters; at most {MAX_ENTRIES:,} are accepted"
        raise InvalidInput("FILE", f"{reason}. Pass arrays instead of scalars, or select another function with --entry")


def _joined_draft(
    source: Source, function: Function, steps: Sequence[Step], elements: Mapping[str, Element], *, own: set[str]
) -> Draft:
    """Draft a family for a call that consists of the given steps.

    Args:
        function: function with the bodies of all steps.
        elements: element type of each argument, by name.
        own: names of the source's type aliases, and of the first function's template type parameters.
    """
    body, code, is_cuda = function.body, function.code, source.language == "cuda"
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
    computed = computed_values(source.code, launched(steps), {each.name for each in source.macros})
    whole = [
        each.name
        for each in function.parameters
        if elements[each.name] in _WHOLE and each.name not in computed
        if not each.pointer or _is_read_once(each, body, accesses)
    ]
    offsets = _offsets(code)
    radii = _radii(whole, used, offsets)
    loops = {each.name for each in used if macro_uses.of(each.name).step}
    fixed = [
        name
        for name, values in _definitions(used).items()
        if is_fixed(name, values, macro_uses.of(name)) and not _is_field(name)
    ]
    constants = _template_constants(source, function)
    own = own | own_names(source.code) | own_names(code) | {*constants.values()}
    fields = _fields(function, used, radii, loops, fixed, whole=whole, own=own)
    names = {each.name for each in fields}
    extents = [each.name for each in fields if not each.flag]
    defaults = {name: each.default for each in fields for name in (each.name, each.argument)}
    sizes = {name: value for name, value in defaults.items() if isinstance(value, int)}
    tunables = tuple(
        tunable(name, values, macro_uses.of(name), cuda=is_cuda, extents=sizes)
        for name, values in _definitions(used).items()
        if name not in names
    )
    tunables += tuple(
        tunable(constants[name], [value], MacroUse(), cuda=is_cuda, extents=sizes)
        for name, value in _host_constants(source).items()
        if name in constants
    )
    bounds = " ".join(each.kernel.bounds for each in steps)
    tunables += tuple(undefined(f"{bounds} {body.text}", names | own | {each.name for each in source.macros}))
    passed = {each.argument: each.name for each in reversed(fields)}
    on_host = {text: passed[name] for text, name in plain_variables(steps).items() if name in passed}
    meant = {each: each for each in (*names, *(each.name for each in tunables))}
    numbers = {each.name: str(each.value) for each in source.macros}
    values = {name: with_values(text, {**numbers, **meant, **on_host}) for name, text in computed.items()}
    bodies = [body] if len(steps) == 1 else [body, *(body.inside(each) for each in body.root.named_children)]
    indices = [Indices(each, extents, passed, [*fixed, *values]) for each in bodies]
    arguments = tuple(
        _argument(
            each,
            elements[each.name],
            extents=extents,
            passed={**passed, **values},
            radii=radii,
            offsets=offsets,
            body=body,
            indices=indices,
            accesses=accesses,
        )
        for each in function.parameters
    )
    arguments = tuple(replace(each, shape=tuple(_extent(it, values) for it in each.shape)) for each in arguments)
    known = Known(fields={each.name: each.default for each in fields}, tunables=tunables)
    launches, constraints, notes = list[DraftLaunch](), list[DraftConstraint](), list[str]()
    if is_cuda:
        meanings = {**numbers, **meant, **passed, **on_host, **constants}
        founds = [_found_launch(source, step, meanings) for step in steps]
        fields = tuple(_with_value(each, founds) for each in fields)
        arguments = tuple(_with_literal(each, founds) for each in arguments)
        launches = [
            _launch(step, found, extents=extents, tunables=tunables, names=names, several=len(steps) > 1)
            for step, found in zip(steps, founds, strict=True)
        ]
        for step, found, launch in zip(steps, founds, launches, strict=True):
            limit, own_body = step.kernel.bounds.replace("/", "//"), step.kernel.body
            constraints += launch_constraints(known, block=launch.block, bounds=limit, body=own_body, launch=found)
            shared = "" if launch.shared_memory else _dynamic_array(own_body)
            notes += [_SHARED.format(shared)] if shared else []
    arguments = of_call(arguments, steps, launches, source, elements)
    constraints += loop_constraints(known, macro_uses, body, passed)
    if is_cuda and len(steps) == 1 and (several := launched_together(source.code, steps[0].name)):
        notes.append(_SEVERAL.format(", ".join(several), " ".join(f"--entry {each}" for each in several)))
    atomics = [each for each in arguments if each.init and "a" in _kinds(each, function, accesses)]
    return Draft(
        kind="cuda" if is_cuda else "cpu",
        entry=function.name,
        notes=tuple(notes),
        fields=fields,
        arguments=arguments,
        tunables=tunables,
        macros=(*(each.name for each in fields if not each.argument), *(each.name for each in tunables)),
        openmp=not is_cuda and "#pragma omp" in source.code.text,
        deterministic=not [each for each in atomics if each.dtype.startswith(_FLOATS)],
        launches=tuple(launches),
        wrapper=wrapper(function, steps, exported=source.language == "c++") if len(steps) > 1 and not is_cuda else "",
        constraints=tuple(dict.fromkeys(constraints)),
    )


def _found_launch(source: Source, step: Step, names: Mapping[str, str]) -> FoundLaunch:
    if step.launch is not None:
        return read_launch(step.launch, source.code, step.arguments, names)
    return found_launch(source.code, step.name, step.arguments, names)


def _launch(
    step: Step,
    found: FoundLaunch,
    *,
    extents: Sequence[str],
    tunables: Sequence[DraftTunable],
    names: Collection[str],
    several: bool,
) -> DraftLaunch:
    """Return the launch of a step. Grid and block are guessed if the source does not state them as expressions."""
    block = found.block or _block(step.kernel, tunables, names)
    return DraftLaunch(
        entry=step.kernel.name,
        arguments=step.arguments if several else (),
        grid=found.grid or _grid(extents, block, tunables),
        block=block,
        shared_memory=found.shared_memory,
        is_launched=bool(found.grid and found.block),
        decide=_REPEATED.format(step.name) if step.launch is not None and step.launch.is_repeated else "",
    )


def _kinds(argument: DraftArgument, function: Function, accesses: Accesses) -> str:
    return "".join(accesses.of(each).kinds for each in function.parameters if each.name == argument.name)


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
    """Return a function as one call runs it (see `Source.only`), with template arguments if it is a template.

    The template arguments are those of an instantiation or a launch in the source. A missing argument gets the
    parameter's default if there is one, else ``float`` for a type and ``1`` for a value. A tunable with the prefix
    `TUNED` replaces an argument that is a constant of the host code.

    Returns:
        The function, with the arguments in its name and in place of its template parameters. Also the type of each
        alias in the source and of each template type parameter, by name.
    """
    types = aliases(source.code)
    given, arguments = source.instance(function), dict[str, str]()
    for place, parameter in enumerate(function.template):
        head, _, default = (each.strip() for each in parameter.partition("="))
        is_type = head.startswith(("typename", "class"))
        name = head.split()[-1]
        arguments[name] = given[place] if place < len(given) else default or ("float" if is_type else "1")
        if arguments[name] in _host_constants(source):
            arguments[name] = f"{TUNED}{arguments[name]}"
        if is_type:
            types[name] = plain_type(arguments[name])
    name = f"{source.namespace(function)}{function.name}<{', '.join(arguments.values())}>"
    found = source.only(function, arguments)
    return replace(found, name=name if arguments else found.name), types


def _host_constants(source: Source) -> dict[str, int]:
    """Return the values of the integer constants that functions define, by name.

    Constants in `Source.macros` (macros, and constants at file scope) are excluded: `import` handles them as macros.
    """
    macros = {each.name for each in source.macros}
    return {name: value for name, value in named_constants(source.code).items() if name not in macros}


def _template_constants(source: Source, function: Function) -> dict[str, str]:
    """Return the tunables that replace constants of the host code as template arguments, by constant."""
    words = set(_WORDS.findall(function.name))
    return {name: f"{TUNED}{name}" for name in _host_constants(source) if f"{TUNED}{name}" in words}


def _chosen(source: Source, entries: Sequence[str]) -> list[Function]:
    """Return the functions with the given names, or the only function if no name is given."""
    names = [each.name for each in source.functions]
    if not names:
        if source.language == "cuda":
            raise InvalidInput("FILE", "has no kernel (`__global__`); choose a source that defines one")
        rule = "It must return void, be outside namespaces and classes, and not be static, inline or a template"
        defined = (declared(part(each, "declarator")) for each in source.code.nodes("function_definition"))
        if own := [name for name in map(last_name, defined) if name not in ("", "main")]:
            rule += f". Add one that calls yours, e.g. `void entry(…) {{ {own[-1]}(…); }}`; a result that `{own[-1]}` "
            rule += "returns can be an output (`int *status`)"
        raise InvalidInput("FILE", f"has no function that can be the entry. {rule}")
    if not entries and len(names) > 1:
        several = f"if one call runs several, name each in order, e.g. --entry {names[0]} --entry {names[1]}"
        raise InvalidInput(
            "--entry",
            f"is missing, but the source has {', '.join(names)}; choose one, e.g. --entry {names[0]}; {several}",
        )
    by_name = {each.name: each for each in reversed(source.functions)}
    for each in entries:
        if each not in by_name:
            raise InvalidInput("--entry", unknown(each, names, "functions of the source"))
    return [by_name[each] for each in entries] or list(source.functions)


def _radii(whole: Sequence[str], macros: Sequence[Macro], offsets: Collection[str]) -> dict[str, str]:
    """Return the problem field for each stencil radius, by the radius's name in the source.

    A radius is recognised by its name, or by a loop that begins at the negated radius, e.g. ``-R``.

    Args:
        whole: names of the parameters that are whole numbers.
        offsets: names at whose negated value a loop begins, e.g. ``R`` in ``for (int k = -R; …``.
    """
    defined = dict.fromkeys(each.name for each in macros)
    return {
        name: name if name in defined else name.upper()
        for name in dict.fromkeys([*defined, *whole])
        if _RADIUS.fullmatch(name.upper()) or (not _FIELD.fullmatch(name.upper()) and name in offsets)
    }


def _offsets(code: Code) -> dict[str, set[str]]:
    """Return the loop variables that begin at a negated name, as a set by name: ``{"R": {"k"}}`` for ``int k = -R``."""
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
    """Return the name of the dynamic shared array, whose size is an argument of the launch; empty if there is none."""
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
    """Return the problem fields: integer parameters, and the macros that are extents, radii or fixed.

    Undefined names that look like extents also become fields. If no field is an extent, an example field N is added.

    Args:
        steps: macros that are the steps of loops. They become tunables even if their names look like extents.
        fixed: macros on whose value the results probably depend (see `is_fixed`).
        whole: names of the parameters that are whole numbers.
        own: names that the source declares. They do not count as undefined.
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
            0,
            DraftField(
                name="N",
                default=65536,
                decide="the fields of the problem (the source shows no extents)",
                guessed=True,
            ),
        )
    largest = max((each.value for each in macros if each.name not in known and each.value <= USUAL[0]), default=1)
    return with_usual_values(fields, largest if largest > 0 and largest & (largest - 1) == 0 else 1)


def _with_value(each: DraftField, launches: Sequence[FoundLaunch]) -> DraftField:
    """Return a field whose default is the number that a launch in the source passes; unchanged if none does."""
    value = next((found.values[each.argument] for found in launches if each.argument in found.values), 0)
    return replace(each, default=value, decide="") if each.argument and value > 0 else each


def _with_literal(each: DraftArgument, launches: Sequence[FoundLaunch]) -> DraftArgument:
    """Return a float argument whose value is the number that a launch in the source passes; unchanged if none does."""
    text = next((found.literals[each.name] for found in launches if each.name in found.literals), "")
    is_number = text and each.role == "scalar" and each.dtype.startswith(_FLOATS)
    return replace(each, value=text, decide="its value (the launch in the source states it)") if is_number else each


def _elements(name: str, body: Code) -> int:
    """Return the number of elements that a pointer accesses if every use is ``*name`` or ``name[NUMBER]``; else 0."""
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


def _is_gathered(name: str, body: Code) -> bool:
    """Return True if each index of an array is an element of another array, as in ``x[columns[i]]``."""
    found = [part(around, "indices") for use in body.uses.get(name, ()) if (around := body.parent(use)) is not None]
    values = [each.named_children for each in found if each is not None]
    return bool(values) and all(len(each) == 1 and each[0].type == "subscript_expression" for each in values)


def _unused(extents: Sequence[str], passed: Mapping[str, str], body: Code) -> list[str]:
    """Return the extents that the code does not use. The kernel takes them only because an array has such an extent."""
    used = {passed.get(name, name) for name in body.uses}
    return [each for each in extents if each not in used]


def _argument(
    parameter: Parameter,
    given: Element,
    *,
    extents: Sequence[str],
    passed: Mapping[str, str],
    radii: Mapping[str, str],
    offsets: Mapping[str, set[str]],
    body: Code,
    indices: Sequence[Indices],
    accesses: Accesses,
) -> DraftArgument:
    """Draft the family argument for a parameter.

    Args:
        indices: the indices in the whole body and, if a call has several steps, in the body of each step.
        extents: names of the problem fields that are extents.
        passed: problem field whose value a scalar parameter receives, by parameter.
        radii: problem field for each stencil radius, by the radius's name in the source.
        offsets: loop variables that begin at a negated name (see `_offsets`).
    """
    dtype = given.dtype
    if not parameter.pointer:
        if given.components > 1:
            reason = f"parameter `{parameter.name}` of type `{parameter.c_type}` cannot be passed by value"
            raise InvalidInput("FILE", f"{reason}; pass its {given.components} components as scalars, or a pointer")
        value = passed.get(parameter.name)
        decide = "" if value else "its value"
        return DraftArgument(name=parameter.name, role="scalar", dtype=dtype, value=value or "1", decide=decide)
    guess = tuple(extents)
    if {"M", "N", "K"} <= set(extents):
        guess = PRODUCT.get(parameter.name.lower(), guess)
    if _is_gathered(parameter.name, body):
        guess = tuple(_unused(extents, passed, body)[-1:]) or guess
    certain = (each.certain_shape(parameter.name) for each in indices)
    shape = next((each for each in certain if each), ()) or indices[0].shape(parameter.name, guess)
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
    """Return the shape that the brackets of a parameter declare. Extents that are missing come from `guessed`.

    If the parameter has no brackets, or an extent contains characters that expressions do not allow, the result is
    `guessed`.
    """
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
        offsets: names of loop variables that begin at the negated radius.
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
            return "output", True, "whether it must be zero before a call"
        case ("u",):
            return "output", False, f"its role: output, inout, input or workspace; it depends on {called[:-1]}"
        case ("r",) | ("w", *_) as kinds:
            return "input" if kinds == ("r",) else "output", False, ""
        case ("r", "u"):
            return "inout", False, f'whether {called} changes it; else role = "input"'
        case ("c", *_) if not dtype.startswith(_FLOATS):
            return "output", True, 'whether it must be zero before a call; else role = "inout"'
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
