"""Prototype of a kernel's function, and its arguments in words."""

from collections.abc import Sequence

from evo.family.argument import Operand
from evo.text.wording import significant

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
CUDA_TYPES = C_TYPES | {"float16": "__half", "bfloat16": "__nv_bfloat16"}


def signature(entry: str, operands: Sequence[Operand], *, cuda: bool) -> str:
    """Return the prototype of a kernel that takes these operands. Types without a name in C are given as bits."""
    types = CUDA_TYPES if cuda else C_TYPES
    parameters = ", ".join(_parameter(each, types.get(each.dtype) or _bits(each.dtype)) for each in operands)
    linkage = 'extern "C" __global__ ' if cuda else ""
    return f"{linkage}void {entry}({parameters})"


def describe_operand(operand: Operand) -> str:
    """Return role, name, dtype, shape and tolerance of an operand in one line."""
    shape = "scalar" if operand.role == "scalar" else f"({', '.join(map(str, operand.shape))})"
    value = "" if operand.value is None else f" = {significant(operand.value)}"
    limits = {} if operand.tolerance is None else {k: v for k, v in vars(operand.tolerance).items() if v is not None}
    judged = "".join(f"; {name} at most {significant(limit)}" for name, limit in limits.items())
    return f"{operand.role} {operand.name}: {operand.dtype} {shape}{value}{judged}"


def _parameter(operand: Operand, ctype: str) -> str:
    if operand.role == "scalar":
        return f"{ctype} {operand.name}"
    return f"{'const ' if operand.role == 'input' else ''}{ctype} *{operand.name}"


def _bits(dtype: str) -> str:
    wide = any(each in dtype for each in ("16", "bf"))
    return "uint16_t" if wide else "uint8_t"
