"""The kernels that one call launches in order, joined into one function whose parameters are the call's arguments."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from evo.errors import InvalidInput
from evo.family.importing.access import Accesses
from evo.family.importing.host.launches import HostLaunch, host_launches
from evo.family.importing.source import Function, Parameter, Source, helpers, own_names
from evo.family.importing.syntax import written

_NUMBER = re.compile(r"[-+]?[\d.][\w.']*")
_ON_DEVICE = re.compile(r"^(?:d|dev|device|gpu)_(?=[A-Za-z])|_(?:d|dev|device|gpu)$")
"""Matches the prefix or suffix of a host variable's name that marks memory on the GPU, such as ``d_``."""
_JOINED = "all_kernels_of_the_call"
"""Name of the joined function, which exists only in the draft."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One kernel of a call.

    Attributes:
        name: name in the source, without namespaces and template arguments.
        kernel: the kernel with its own parameters. Its name includes namespaces and template arguments.
        arguments: argument of the call that each parameter receives, in the order of the parameters.
        launch: launch in the source; None if no function launches all kernels of the call.
    """

    name: str
    kernel: Function
    arguments: tuple[str, ...]
    launch: HostLaunch | None = None


def together(source: Source, entries: Sequence[str]) -> list[HostLaunch]:
    """Return the launches of the first host function that launches several kernels; empty if there is none.

    A sequence of launches that the function repeats, e.g. for a warm-up, is returned once.

    Args:
        entries: names of the kernels. The function must launch all of them, and launches of other kernels are left out.
            If empty, all kernels of the function are returned, and they must use one another's results.
    """
    known = {each.name: each for each in source.functions}
    by_function: dict[int, list[HostLaunch]] = {}
    for each in host_launches(source.code):
        if each.function is not None and each.kernel in (entries or known) and each.kernel in known:
            by_function.setdefault(each.function.id, []).append(each)
    for launches in by_function.values():
        names, found = {each.kernel for each in launches}, _once(launches)
        if names >= set(entries) and len(names) > 1 and (entries or _are_connected(found, known, source)):
            return found
    return []


def _are_connected(launches: Sequence[HostLaunch], known: Mapping[str, Function], source: Source) -> bool:
    """Return True if each launch uses an array that an earlier one wrote, or writes an array that a later one uses.

    Kernels that a program only compares, such as versions of one kernel, share no such array.
    """
    used, changed, functions = list[set[str]](), list[set[str]](), helpers(source.code)
    for launch in launches:
        kinds = dict[str, str]()
        accesses = Accesses(known[launch.kernel].body, functions)
        for parameter, text in zip(known[launch.kernel].parameters, launch.passed, strict=False):
            if parameter.pointer:
                kinds[text] = "r" if parameter.constant else accesses.of(parameter).kinds
        used.append({text for text, found in kinds.items() if set(found) - {"w"}})
        changed.append({text for text, found in kinds.items() if set(found) - {"r"}})
    linked = set[int]()
    for place, needed in enumerate(used):
        for earlier in range(place):
            if changed[earlier] & needed:
                linked |= {earlier, place}
    return len(linked) == len(launches)


def _once(launches: list[HostLaunch]) -> list[HostLaunch]:
    """Return the launches without repetitions of the whole sequence."""
    texts = [(each.kernel, each.passed) for each in launches]
    for length in range(1, len(launches)):
        if len(launches) % length == 0 and texts == texts[:length] * (len(launches) // length):
            return launches[:length]
    return launches


def steps_of(kernels: Sequence[tuple[str, Function]], launches: Sequence[HostLaunch]) -> tuple[Step, ...]:
    """Return the steps of a call, with one name for each argument.

    Parameters that receive the same host variable or expression are one argument. If there are no launches, or the
    launches pass equal numbers, parameters with the same name are one argument.

    Args:
        kernels: each step's name in the source, and its kernel.
        launches: launch of each step; empty if the source does not launch the kernels together.
    """
    names: dict[tuple[str, ...], str] = {}
    steps = list[Step]()
    for place, (name, kernel) in enumerate(kernels):
        launch = launches[place] if launches else None
        passed = launch.passed if launch is not None else ()
        arguments = list[str]()
        for position, parameter in enumerate(kernel.parameters):
            text = passed[position] if position < len(passed) else ""
            key = (text,) if text and not _NUMBER.fullmatch(text) else ("", parameter.name, text)
            if key not in names:
                names[key] = _new_name(parameter.name, text, set(names.values()))
            arguments.append(names[key])
        steps.append(Step(name=name, kernel=kernel, arguments=tuple(arguments), launch=launch))
    return tuple(steps)


def _new_name(parameter: str, passed: str, taken: set[str]) -> str:
    on_host = _ON_DEVICE.sub("", passed) if re.fullmatch(r"[A-Za-z]\w*", passed) else parameter
    numbered = (f"{parameter}_{number}" for number in range(2, 2 + len(taken) + 1))
    return next(each for each in (parameter, on_host, *numbered) if each not in taken)


def joined(source: Source, steps: Sequence[Step]) -> Function:
    """Return a function that contains the bodies of all steps, in order. Its parameters are the arguments of the call.

    Raises:
        InvalidInput: kernels use different types for the same argument.
    """
    parameters = _parameters(steps)
    names = {each.name for each in parameters}
    bodies = [_body(step, f"_{place}" if place > 1 else "", names) for place, step in enumerate(steps, 1)]
    prefix = "__global__ void" if source.language == "cuda" else "void"
    declared_parameters = ", ".join(_declaration(each) for each in parameters)
    found = source.followed_by(f"{prefix} {_JOINED}({declared_parameters}) {{\n{chr(10).join(bodies)}\n}}")
    between = ", " if source.language == "cuda" else "_then_"
    return replace(found, name=between.join(dict.fromkeys(each.kernel.name for each in steps)), parameters=parameters)


def _parameters(steps: Sequence[Step]) -> tuple[Parameter, ...]:
    found: dict[str, Parameter] = {}
    for step in steps:
        for name, parameter in zip(step.arguments, step.kernel.parameters, strict=True):
            known = found.get(name)
            if known is not None and (known.pointer, known.c_type) != (parameter.pointer, parameter.c_type):
                types = " and ".join(f"{each.c_type}{' *' * each.pointer}" for each in (known, parameter))
                raise InvalidInput(
                    "--entry",
                    f"the kernels take `{name}` as {types}; use one type for the parameters, or different names",
                )
            constant = parameter.constant and (known is None or known.constant)
            found[name] = replace(parameter if known is None else known, name=name, constant=constant)
    return tuple(found.values())


def _declaration(each: Parameter) -> str:
    extents = "".join(f"[{extent}]" for extent in each.extents)
    pointer = "*" * (each.pointer and not extents)
    return f"{'const ' * each.constant}{each.c_type} {pointer}{each.name}{extents}"


def _body(step: Step, suffix: str, taken: set[str]) -> str:
    """Return the body of a step, in which the call's arguments replace the kernel's parameters.

    Local variables of all steps but the first get a suffix, so that variables of different steps are distinct.

    Args:
        taken: names of the call's arguments. Local variables with these names get the suffix ``_own``.
    """
    code = step.kernel.body
    local = {name for name in own_names(code) if name.isidentifier()}
    changed = {name: f"{name}{suffix}" for name in local if suffix}
    changed |= {name: f"{name}_own" for name in local & taken}
    own = [each.name for each in step.kernel.parameters]
    changed |= {name: given for name, given in zip(own, step.arguments, strict=True) if name not in local}
    content, begin = code.content[code.root.start_byte : code.root.end_byte], code.root.start_byte
    kept, end = list[bytes](), 0
    for node in code.nodes("identifier"):
        if (name := written(node)) in changed:
            kept += [content[end : node.start_byte - begin], changed[name].encode()]
            end = node.end_byte - begin
    return b"".join([*kept, content[end:]]).decode("utf-8", "surrogateescape")


def scratch(steps: Sequence[Step], source: Source) -> set[str]:
    """Return the arrays that pass results between steps.

    The first step that uses such an array writes it, without reading it before. The last step that uses it only reads
    it.
    """
    functions = helpers(source.code)
    kinds: dict[str, list[str]] = {}
    for step in steps:
        accesses = Accesses(step.kernel.body, functions)
        for name, parameter in zip(step.arguments, step.kernel.parameters, strict=True):
            if parameter.pointer:
                found = "r" if parameter.constant else accesses.of(parameter).kinds
                kinds.setdefault(name, []).append(found)
    return {
        name
        for name, (first, *others) in kinds.items()
        if others and others[-1] == "r" and not first.startswith("r") and set(first) & set("wca")
    }


def wrapper(function: Function, steps: Sequence[Step], *, exported: bool) -> str:
    """Return a C function that calls the functions of all steps in order.

    Args:
        function: function with the name and the parameters of the C function.
        exported: True to declare the function ``extern "C"``.
    """
    calls = "".join(f"    {each.name}({', '.join(each.arguments)});\n" for each in steps)
    given = ", ".join(map(_declaration, function.parameters))
    linkage = 'extern "C" ' if exported else ""
    return f"{linkage}void {function.name}({given}) {{\n{calls}}}\n"
