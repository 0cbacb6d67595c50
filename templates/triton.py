"""Generates the source of a Triton kernel for a config: the code that the kernel needs, and the compile settings."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from evo.errors import InvalidInput, RenderError
from evo.family import Implementation
from evo.family.launch.descriptor import Descriptor, DescriptorFormula
from evo.family.problem import Problem
from evo.family.source.triton import OPTIONS, Kernel, Parameter, kernels_of, parsed, sliced
from evo.text.suggestion import unknown
from evo.trial import Value

BUILD = "# kernel-evo build: "
"""Start of the last line of a generated source, which contains the compile settings as JSON."""

DESCRIBED = "kernel_evo_described"
"""Name of the user's kernel in a generated source if the kernel takes tensor descriptors."""

MAP = "_kernel_evo_map"
"""Suffix of generated parameters: the parameter ``x_kernel_evo_map`` takes the tensor map of the parameter ``x``."""

DIVISIBLE = 16
"""Triton optimises accesses to arrays whose address is a multiple of this number of bytes."""

TYPES: Mapping[str, str] = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "i1",
}
"""Triton's names of dtypes, by kernel-evo's names."""


def rendered(text: str, implementation: Implementation, problem: Problem, variables: Mapping[str, Value]) -> str:
    """Return the source of one config, with the compile settings in the last line.

    Raises:
        RenderError: the file does not define the kernel, or the kernel's parameters differ from the declared arguments.
    """
    try:
        kernel, source = _kernel(text, implementation), sliced(text, implementation.entry, implementation.file)
    except InvalidInput as error:
        raise RenderError(str(error)) from error
    build = _build(kernel, implementation, problem, variables)
    described = _descriptors(kernel, implementation, problem, variables)
    if described:
        source = f"{source.rstrip()}\n{_passing_descriptors(kernel, build, described)}"
        build |= {"maps": {f"{name}{MAP}": _map(each) for name, each in described.items()}}
    return f"{source.rstrip()}\n\n{BUILD}{json.dumps(build)}\n"


def check(text: str, implementation: Implementation, declared: Sequence[str]) -> None:
    """Check that a Triton file defines the kernel, and that the kernel uses the declared names.

    Raises:
        RenderError: the file does not define the kernel, a parameter gets no value, or a tunable has no effect.
    """
    try:
        kernel = _kernel(text, implementation)
        sliced(text, implementation.entry, implementation.file)
    except InvalidInput as error:
        raise RenderError(str(error)) from error
    _passed(kernel, implementation, implementation.arguments, declared)
    known = [*(each.name for each in kernel.parameters), *_names_of_descriptors(implementation)]
    for name in (each.name for each in implementation.tunables):
        if name not in {*known, *OPTIONS} | implementation.reach({*known, *OPTIONS}):
            start = "neither the kernel nor Triton has a parameter `{}`"
            reason = unknown(name, [*known, *OPTIONS], "parameters", reason=start)
            raise RenderError(f"{implementation.file}: the tunable {name} has no effect: {reason}")


def names_of(text: str, implementation: Implementation) -> frozenset[str]:
    """Return the names that affect compiling: the kernel's parameters, names in descriptors, and Triton's options.

    Raises:
        RenderError: the source cannot be parsed, or does not define the kernel.
    """
    try:
        parameters = {each.name for each in _kernel(text, implementation).parameters}
        return frozenset(parameters | _names_of_descriptors(implementation) | set(OPTIONS))
    except InvalidInput as error:
        raise RenderError(str(error)) from error


def _described(implementation: Implementation) -> dict[str, DescriptorFormula]:
    """Return the declared tensor descriptors, by the name of the argument that each describes."""
    geometry = implementation.geometry
    return {} if geometry is None else {each.of: each for each in geometry.descriptors}


def _names_of_descriptors(implementation: Implementation) -> set[str]:
    formulas = _described(implementation).values()
    return {name for each in formulas for expression in each.expressions for name in expression.names}


def _descriptors(
    kernel: Kernel, implementation: Implementation, problem: Problem, variables: Mapping[str, Value]
) -> dict[str, tuple[str, str, Descriptor]]:
    """Return argument name, dtype and descriptor of each kernel parameter that takes a descriptor, by parameter.

    Raises:
        RenderError: a descriptor does not fit its argument.
    """
    formulas = _described(implementation)
    call = [each for each in implementation.arguments if each.present(problem)]
    found = dict[str, tuple[str, str, Descriptor]]()
    for parameter, argument in zip(_passed(kernel, implementation, call, variables), call, strict=True):
        if argument.name in formulas:
            try:
                made = formulas[argument.name].resolve({**problem, **variables}, argument)
            except InvalidInput as error:
                raise RenderError(str(error)) from error
            found[parameter.name] = (argument.name, str(problem.get(argument.dtype, argument.dtype)), made)
    return found


def _passing_descriptors(
    kernel: Kernel, build: Mapping[str, Any], described: Mapping[str, tuple[str, str, Descriptor]]
) -> str:
    """Return the source of a kernel that takes tensor maps, and passes them to the user's kernel as descriptors.

    The new kernel has the name of the user's kernel. Its parameters are those of the user's kernel, followed by the
    maps. For GPUs without a tensor memory accelerator, the compiler sets the maps to None. The new kernel then creates
    descriptors from addresses, and Triton converts these descriptors back to addresses.
    """
    passed = {each.name: each.name for each in kernel.parameters}
    for name, (_, _, made) in described.items():
        extents = ", ".join(str(list(each)) for each in (made.shape, made.strides, made.block))
        created = f"triton.language.make_tensor_descriptor({name}, {extents})"
        passed[name] = f"{created} if {name}{MAP} is None else {name}{MAP}"
    taken = build["signature"]
    parameters = [name if name in taken else f"{name}: triton.language.constexpr" for name in passed]
    parameters += [f"{name}{MAP}" for name in described]
    return (
        f"\n{DESCRIBED} = {kernel.name}\n\n\n@triton.jit\ndef {kernel.name}({', '.join(parameters)}):\n"
        f"    {DESCRIBED}({', '.join(passed.values())})\n"
    )


def _map(described: tuple[str, str, Descriptor]) -> dict[str, Any]:
    """Return the description of a tensor map: Triton type, argument, dtype and shape."""
    name, dtype, made = described
    return {"type": f"tensordesc<{TYPES[dtype]}{list(made.block)}>", "of": name, "dtype": dtype, "shape": made.shape}


def _kernel(text: str, implementation: Implementation) -> Kernel:
    found = {each.name: each for each in kernels_of(parsed(text, implementation.file))}
    if implementation.entry not in found:
        reason = unknown(implementation.entry, found, "functions decorated with @triton.jit")
        raise InvalidInput(f"{implementation.file}: entry", reason)
    return found[implementation.entry]


def _build(
    kernel: Kernel, implementation: Implementation, problem: Problem, variables: Mapping[str, Value]
) -> dict[str, Any]:
    call = [each for each in implementation.arguments if each.present(problem)]
    passed = _passed(kernel, implementation, call, variables)
    signature, divisible = dict[str, str](), list[str]()
    for parameter, argument in zip(passed, call, strict=True):
        dtype = TYPES[str(problem.get(argument.dtype, argument.dtype))]
        signature[parameter.name] = dtype if argument.role == "scalar" else f"*{dtype}"
        if argument.role != "scalar" and argument.alignment % DIVISIBLE == 0:
            divisible.append(parameter.name)
    constants = {
        each.name: variables.get(each.name, each.default) for each in kernel.parameters if each.name not in signature
    }
    taken = {each.name for each in kernel.parameters}
    options = {name: variables[name] for name in OPTIONS if name in variables and name not in taken}
    return {
        "entry": kernel.name,
        "signature": signature,
        "divisible": divisible,
        "constants": constants,
        "options": {name: value for name, value in options.items() if value != 0},
    }


def _passed(
    kernel: Kernel, implementation: Implementation, call: Sequence[Any], known: Sequence[str] | Mapping[str, Value]
) -> list[Parameter]:
    """Return the kernel parameters for which a launch passes arguments, after checking that they fit `call`.

    The remaining parameters are constants. Their values are problem fields, tunables, derived values or defaults.

    Args:
        call: arguments of the call.
        known: names of problem fields, tunables and derived values.
    """
    passed = [each for each in kernel.parameters if each.name not in known and not _has_default(each)]
    for each in passed:
        if each.constant:
            remedy = f"declare a problem field or tunable of this name, or write `{each.name}` under [triton.derived]"
            raise RenderError(f"{implementation.file}: {kernel.name} takes the constant {each.name}; {remedy}")
    if len(passed) != len(call):
        names, arguments = (", ".join(each.name for each in some) or "none" for some in (passed, call))
        raise RenderError(
            f"{implementation.file}: {kernel.name} takes {len(passed)} arguments ({names}), but family.toml passes "
            f"{len(call)} ({arguments}); in `arguments`, list one argument for each of these kernel parameters, in the "
            "kernel's order; omit parameters that have the name of a field, tunable or derived value, because these "
            "are constants"
        )
    for parameter, argument in zip(passed, call, strict=True):
        if parameter.described and argument.name not in _described(implementation):
            remedy = f'add [[triton.launch.descriptors]] with of = "{argument.name}" and its block, e.g. ["BLOCK", "D"]'
            raise RenderError(
                f"{implementation.file}: {kernel.name} takes {parameter.name} as a tensor descriptor; {remedy}"
            )
        if parameter.pointer and argument.role == "scalar":
            raise RenderError(
                f"{implementation.file}: {kernel.name} uses {parameter.name} as an address, but family.toml passes the "
                f"scalar {argument.name} at this position; list the arguments in the order of the kernel's parameters"
            )
    return passed


def _has_default(parameter: Parameter) -> bool:
    return parameter.constant and parameter.default is not None
