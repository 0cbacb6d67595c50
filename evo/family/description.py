"""Describes a family as plain data for the command line and REST, and a kernel's prototype and arguments as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from evo.family.argument import Argument, Operand
from evo.family.implementation import Implementation
from evo.family.launch.geometry import Geometry
from evo.family.problem import Field
from evo.space import Constraint, Tunable
from evo.space.expression import Expression
from evo.text.wording import significant


def describe_field(field: Field) -> dict[str, Any]:
    """Return a field's name, type, default (None if a value is required), accepted values, and help text."""
    described = {"name": field.name, "type": field.type, "default": field.default, "accepts": field.accepts}
    return described | {"help": field.help}


def describe_argument(argument: Argument) -> dict[str, Any]:
    described = {"name": argument.name, "role": argument.role, "dtype": argument.dtype, "shape": _texts(argument.shape)}
    value = {"value": argument.value.text} if argument.value else {}
    tolerance = {"tolerance": {name: limit.text for name, limit in argument.tolerance.items()}}
    initial = argument.initial
    init = {} if initial is None else {"init": {"value": initial.value.text, "timed": initial.timed}}
    verified = {"verified": True} if argument.verified else {}
    when = {"when": argument.when.text} if argument.when else {}
    return described | value | init | verified | when | (tolerance if argument.tolerance else {})


def describe_implementation(implementation: Implementation) -> dict[str, Any]:
    return {
        "file": implementation.file or None,
        "language": implementation.language,
        "entry": implementation.entry or None,
        "requires": _constraints(implementation.requires),
        "notes": [{"expression": each.expression.text, "note": each.text} for each in implementation.notes],
        "defaults": dict(implementation.defaults),
        "tunables": [_tunable(tunable) for tunable in implementation.tunables],
        "constraints": _constraints(implementation.constraints),
        "starts": [
            {"expression": each.expression.text, "config": dict(each.config), "because": each.because}
            for each in implementation.starts
        ],
        "derived": _texts_by_name(implementation.derived),
        "launch": implementation.geometry and _launch(implementation.geometry),
        "configs": None if implementation.valid_keys is None else len(implementation.valid_keys),
    }


def _launch(geometry: Geometry) -> dict[str, Any]:
    described = {
        "grid": _texts(geometry.grid),
        "block": _texts(geometry.block),
        "shared_memory": geometry.shared_memory.text,
        "tensor_maps": [{"of": each.of, "when": each.when.text, "box": _texts(each.box)} for each in geometry.maps],
    }
    if not geometry.entry:
        return described
    further = {"further": [_launch(each) for each in geometry.further]} if geometry.further else {}
    return {"entry": geometry.entry, "arguments": list(geometry.arguments), **described, **further}


def _tunable(tunable: Tunable) -> dict[str, Any]:
    described = {"name": tunable.name, "values": list(tunable.values), "default": tunable.default}
    return described | {"kind": "ordinal" if tunable.ordinal else "categorical", "help": tunable.help}


def _constraints(constraints: Sequence[Constraint]) -> list[dict[str, str]]:
    return [{"expression": each.expression.text, "because": each.because} for each in constraints]


def _texts_by_name(expressions: Mapping[str, Expression]) -> dict[str, str]:
    return {name: expression.text for name, expression in expressions.items()}


def _texts(expressions: Sequence[Expression]) -> list[str]:
    return [expression.text for expression in expressions]


C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
}
CUDA_TYPES = C_TYPES | {
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}
"""CUDA types by dtype. NVRTC needs a header only for the half-precision types."""


def signature(entry: str, operands: Sequence[Operand], *, cuda: bool) -> str:
    """Return the prototype of a kernel with these parameters.

    A dtype without a type in C (or in CUDA, if `cuda` is True) becomes an unsigned integer of the same size.
    """
    types = CUDA_TYPES if cuda else C_TYPES
    parameters = ", ".join(_parameter(each, types.get(each.dtype) or types[_bits(each.dtype)]) for each in operands)
    linkage = 'extern "C" __global__ ' if cuda else ""
    return f"{linkage}void {entry}({parameters})"


def describe_operand(operand: Operand) -> str:
    """Describe an argument in one line: role, dtype, shape, value, guarantees and tolerance."""
    shape = "scalar" if operand.role == "scalar" else f"({', '.join(map(str, operand.shape))})"
    value = "" if operand.value is None else f" = {significant(operand.value)}"
    limits = {} if operand.tolerance is None else {k: v for k, v in vars(operand.tolerance).items() if v is not None}
    judged = "".join(f"; {name} at most {_limit_text(limit)}" for name, limit in limits.items())
    if operand.verified:
        judged += "; checked by verify() of the family"
    return f"{operand.role} {operand.name}: {operand.dtype} {shape}{value}{_promised(operand)}{judged}"


def _limit_text(limit: float) -> str:
    """Return a limit as text: with four significant digits if these are exact, else with all digits."""
    shown = significant(limit)
    return shown if float(shown.replace(",", "")) == limit else f"{limit!r}"


def _promised(operand: Operand) -> str:
    """Describe the guaranteed alignment, value range and initial value of a buffer; empty if there are none."""
    parts = [f"aligned to {operand.alignment} bytes"] if operand.alignment > 1 else []
    if operand.min is not None or operand.max is not None:
        least, most = (None if each is None else f"{each}" for each in (operand.min, operand.max))
        between = f"from {least} to {most}" if least and most else f"at least {least}" if least else f"at most {most}"
        parts.append(f"elements {between}")
    if operand.init is not None:
        timed = "as part of the timed call" if operand.init_timed else "not timed"
        parts.append(f"filled with {significant(operand.init)} before each call, {timed}")
    return "".join(f"; {each}" for each in parts)


def _parameter(operand: Operand, ctype: str) -> str:
    if operand.role == "scalar":
        return f"{ctype} {operand.name}"
    return f"{'const ' if operand.role == 'input' else ''}{ctype} *{operand.name}"


def _bits(dtype: str) -> str:
    wide = any(each in dtype for each in ("16", "bf"))
    return "uint16" if wide else "uint8"
