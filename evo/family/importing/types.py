"""Types of C, C++ and CUDA parameters: finds the dtype and the number of components of an array's elements."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evo.errors import InvalidInput

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
_SHORT = {"uchar": "unsigned char", "ushort": "unsigned short", "uint": "unsigned int", "ulong": "unsigned long"}
"""C types by their short names in glibc and OpenCL."""
_VECTOR = re.compile(r"(u?(?:char|short|int|long|longlong)|float|double)([1-4])")
_PAIRS = {"half2": "__half", "__half2": "__half", "__nv_bfloat162": "__nv_bfloat16"}
_COMPLEX = {
    "float complex": "float",
    "double complex": "double",
    "cuComplex": "float",
    "cuFloatComplex": "float",
    "cuDoubleComplex": "double",
}
_HALF = re.compile(r"(?i)(b)f(?:loat)?16|half|f(?:p|loat)?16")
"""Matches an alias of a 16-bit integer type whose values are bit patterns of float16 or bfloat16."""
_ACCEPTED = f"{', '.join(_DTYPES)}, (u)int8_t to (u)int64_t"


@dataclass(frozen=True, kw_only=True)
class Element:
    """Type of the elements of an array.

    Attributes:
        components: number of scalars in one element, e.g. 4 for ``float4`` and 2 for a complex number.
        alignment: alignment in bytes that the type requires; 0 if it requires only that of the dtype.
    """

    dtype: str
    components: int = 1
    alignment: int = 0


def plain_type(text: str) -> str:
    """Return a type as words without brackets, e.g. ``std::complex float`` for ``std::complex<float>``."""
    return " ".join(re.findall(r"[\w:]+", text))


def element(c_type: str, known: Mapping[str, str], *, whose: str) -> Element:
    """Return the dtype, components and alignment of array elements of a C type.

    Args:
        known: types by the names that represent them: aliases (see `source.aliases`) and template type parameters.
        whose: description of the parameter, used in error messages.

    Raises:
        InvalidInput: no dtype corresponds to the type.
    """
    found, left, name = c_type, dict(known), ""
    while (key := found.rpartition("::")[2]) in left:
        found, name = left.pop(key), key
    if (given := _element(found)) is None:
        meant = "" if found == c_type else f" (`{found}`)"
        reason = f"{whose} has the type `{c_type}`{meant}, which no argument can have"
        raise InvalidInput(
            "FILE",
            f"{reason}; accepted: {_ACCEPTED}, CUDA's vectors and complex numbers of these, and pointers. For a "
            "structure, add a function that takes its members, fills the structure and calls the original function",
        )
    if given == Element(dtype="uint16") and (half := _HALF.search(name)) is not None:
        return Element(dtype="bfloat16" if half[1] else "float16")
    return given


def _element(c_type: str) -> Element | None:
    if (dtype := _number(c_type)) is not None:
        return Element(dtype=dtype)
    if (vector := _VECTOR.fullmatch(c_type)) is not None:
        name, count = vector[1].replace("longlong", "long long"), int(vector[2])
        name = f"unsigned {name[1:]}" if name.startswith("u") else name
        return _several(_DTYPES[name], count)
    if c_type in _PAIRS:
        return _several(_DTYPES[_PAIRS[c_type]], 2)
    words = [each for each in c_type.replace("_Complex", "complex").split() if each != "std::complex"]
    if len(words) == 2 and words[0] == "complex":
        words.reverse()
    if c_type.startswith("std::complex ") and len(words) == 1:
        words.append("complex")
    if (part := _COMPLEX.get(" ".join(words))) is not None:
        aligned = _several(_DTYPES[part], 2)
        return aligned if c_type.startswith("cu") else Element(dtype=aligned.dtype, components=2)
    return None


def size_of(c_type: str) -> int:
    """Return the size of a C type in bytes; 0 if it is unknown."""
    found = _element(c_type)
    return 0 if found is None else _bytes(found.dtype) * found.components


def _bytes(dtype: str) -> int:
    return 1 if dtype == "bool" else int(dtype.partition("_")[0].lstrip("abcdefghijklmnopqrstuvwxyz")) // 8


def _several(dtype: str, count: int) -> Element:
    alignment = 0 if count in (1, 3) else min(_bytes(dtype) * count, 16)
    return Element(dtype=dtype, components=count, alignment=alignment)


def _number(c_type: str) -> str | None:
    """Return the dtype of a numeric C type; None for other types."""
    name = c_type.removeprefix("cuda::").removeprefix("std::")
    name = _SHORT.get(name, name)
    if (fixed := re.fullmatch(r"(u?int(?:8|16|32|64))_t", name)) is not None:
        return fixed[1]
    words = name.split()
    if {"short", "long", "unsigned", "signed"} & set(words):
        left = [each for each in words if each not in ("int", "signed", "unsigned")]
        name = " ".join([*["unsigned"] * ("unsigned" in words), *left]) or "int"
        name = "signed char" if left == ["char"] and "unsigned" not in words else name
    return _DTYPES.get(name)
