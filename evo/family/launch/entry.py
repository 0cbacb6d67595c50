"""Entry of an implementation: the function to call, and its symbol in PTX."""

import re
from collections.abc import Sequence

from evo.device import DeviceKind, kind_of
from evo.errors import InvalidInput
from evo.family.argument import IDENTIFIER, Argument
from evo.family.table import Table
from evo.text.document import literal_text

_QUALIFIED = re.compile(
    r"\s*([A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*(<(?!<)(?:(?!<<<)[^;{}])*>)?\s*(\(.*\)|<<<.*)?\s*;?\s*", re.DOTALL
)

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")

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


def read_entry(table: Table, kind: DeviceKind, call: Sequence[Argument]) -> str:
    """Read the ``entry`` of an implementation or of a launch.

    Raises:
        InvalidInput: the entry is neither an identifier nor an instance of a CUDA template. If it is a different C++
            name, the message explains how to change the source so that the function can be called.
    """
    entry = table.line("entry", what="the name of the function to call")
    if IDENTIFIER.fullmatch(entry) or (kind_of(kind).sources == "cuda" and is_instance(entry)):
        return entry
    raise InvalidInput(
        table.field("entry"), f"{literal_text(entry)} is not a plain function name{_hint(entry, kind, call)}"
    )


def is_instance(entry: str) -> bool:
    """Return True if the entry is an instance of a template, e.g. ``scale<float, VECTOR>``."""
    found = _QUALIFIED.fullmatch(entry)
    if found is None or found[3] or not found[2]:
        return False
    return len(entry) <= 200 and entry == entry.strip("; ")


def template_name(entry: str) -> str:
    """Return the name of an entry's template, without its namespace."""
    return entry.partition("<")[0].rpartition("::")[2].strip()


def symbol_of(entry: str, ptx: str) -> str:
    """Return the symbol of an entry in PTX.

    If the entry is an instance of a template, and the PTX contains only one instance of this template, the symbol of
    this instance is returned. Otherwise, the symbol is the entry itself.
    """
    name = template_name(entry)
    instance = re.compile(rf"(?<!\d){len(name)}{re.escape(name)}I")
    found = [each for each in dict.fromkeys(entries_in(ptx)) if instance.search(each)]
    return found[0] if is_instance(entry) and len(found) == 1 else entry


def entries_in(ptx: str) -> list[str]:
    """Return the symbols of all kernel entries in PTX."""
    return _ENTRY.findall(ptx)


def _hint(entry: str, kind: DeviceKind, call: Sequence[Argument]) -> str:
    found = _QUALIFIED.fullmatch(entry)
    if found is None or len(entry) > 100:
        return ': write only the name, as the source defines it, e.g. "my_kernel"'
    name, arguments = found[1], (found[2] or "").strip()
    if not arguments and "::" not in name:
        return f': write entry = "{name}"'
    return _of_cuda(name, arguments) if kind_of(kind).sources == "cuda" else _of_cpp(name, arguments, call)


def _of_cpp(name: str, arguments: str, call: Sequence[Argument]) -> str:
    plain = _plain(name + arguments)
    parameters, passed = _parameters(call), ", ".join(each.name for each in call)
    return (
        f", but a C++ name. Add a function with a C name to the source (a .cpp file), "
        f'`extern "C" void {plain}({parameters}) {{ {name}{arguments}({passed}); }}`, and write entry = "{plain}"'
    )


def _of_cuda(name: str, arguments: str) -> str:
    last = name.rpartition("::")[2]
    asked = f'write entry = "{last}": the compile error then gives the mangled name to write in its place'
    if arguments:
        return f': write entry = "{name}{arguments}"'
    return f', but a C++ name. Write `extern "C"` before its `__global__` and entry = "{last}"; or {asked}'


def _parameters(call: Sequence[Argument]) -> str:
    """Return the parameters of a call as C code.

    A dtype without a C type is written by its name, e.g. ``bfloat16``. If a problem field selects the dtype, the name
    of the field is written.
    """
    parts = []
    for each in call:
        c_type = _TYPES.get(each.dtype, each.dtype)
        pointer = "" if each.role == "scalar" else " *"
        constant = "const " if each.role == "input" else ""
        text = f"{constant}{c_type}{pointer}"
        parts.append(f"{text}{each.name}" if pointer else f"{text} {each.name}")
    return ", ".join(parts)


def _plain(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
