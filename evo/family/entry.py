"""The function that an implementation calls, by its symbol in the binary."""

import re
from collections.abc import Sequence

from evo.device import DeviceKind, kind_of
from evo.errors import InvalidInput
from evo.family.argument import IDENTIFIER, Argument
from evo.family.table import Table

_QUALIFIED = re.compile(r"\s*([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*(<[^;{}]*>)?\s*(\(.*\)|<<<.*)?\s*;?\s*", re.DOTALL)

_TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "long long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint64": "unsigned long long",
    "uint32": "unsigned",
    "uint16": "unsigned short",
    "uint8": "unsigned char",
    "bool": "bool",
}
_CUDA_TYPES = {
    **_TYPES,
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float8_e4m3": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
}


def read_entry(table: Table, kind: DeviceKind, call: Sequence[Argument]) -> str:
    """Read the ``entry`` of an implementation.

    Raises:
        InvalidInput: it is not an identifier. For a C++ name the error gives source lines that make it callable.
    """
    entry = table.text("entry", what="the name of the function to call")
    if IDENTIFIER.fullmatch(entry):
        return entry
    raise InvalidInput(
        table.field("entry"), f"{entry!r:.100} is not the name of the function to call{_hint(entry, kind, call)}"
    )


def _hint(entry: str, kind: DeviceKind, call: Sequence[Argument]) -> str:
    found = _QUALIFIED.fullmatch(entry)
    if found is None or len(entry) > 100:
        return ': give the name alone, as the source defines it, e.g. "my_kernel"'
    name, arguments = found[1], (found[2] or "").strip()
    if not arguments and "::" not in name:
        return f': write entry = "{name}"'
    return _of_cuda(name, arguments, call) if kind_of(kind).sources == "cuda" else _of_cpp(name, arguments, call)


def _of_cpp(name: str, arguments: str, call: Sequence[Argument]) -> str:
    plain = _plain(name + arguments)
    parameters, passed = _parameters(call, _TYPES), ", ".join(each.name for each in call)
    return (
        f", but a C++ name. Add a function with a C name to the source (a .cpp file), "
        f'`extern "C" void {plain}({parameters}) {{ {name}{arguments}({passed}); }}`, and write entry = "{plain}"'
    )


def _of_cuda(name: str, arguments: str, call: Sequence[Argument]) -> str:
    last = name.rpartition("::")[2]
    asked = f'write entry = "{last}": the compile error then gives the mangled name to write in its place'
    if not arguments:
        return f', but a C++ name. Write `extern "C"` before its `__global__` and entry = "{last}"; or {asked}'
    line = f"template __global__ void {name}{arguments}({_parameters(call, _CUDA_TYPES, named=False)});"
    return f", but an instance of a template. Add its instantiation to the source, `{line}`, and {asked}"


def _parameters(call: Sequence[Argument], types: dict[str, str], *, named: bool = True) -> str:
    """Return the parameters of a call in C. A dtype that is chosen by a field, or has no C type, is left as it is."""
    parts = []
    for each in call:
        c_type = types.get(each.dtype, each.dtype)
        pointer = "" if each.role == "scalar" else " *"
        constant = "const " if each.role == "input" else ""
        text = f"{constant}{c_type}{pointer}"
        parts.append(text if not named else f"{text}{each.name}" if pointer else f"{text} {each.name}")
    return ", ".join(parts)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
