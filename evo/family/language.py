"""The language of a kernel's source, by the suffix of its file."""

from pathlib import PurePosixPath
from typing import Literal

from evo.device import DeviceKind
from evo.errors import InvalidInput

Language = Literal["c", "c++", "cuda"]

_CPP = frozenset({".cpp", ".cc", ".cxx", ".c++", ".cp", ".C", ".CPP", ".hpp", ".hh", ".hxx"})
_OTHERS = {
    **dict.fromkeys((".cu", ".cuh"), "CUDA"),
    **dict.fromkeys((".f", ".for", ".f77", ".f90", ".f95", ".f03", ".f08"), "Fortran"),
    **dict.fromkeys((".s", ".S", ".asm"), "assembly"),
    **dict.fromkeys((".m", ".mm"), "Objective-C"),
    **dict.fromkeys((".o", ".a", ".so", ".dll", ".dylib"), "compiled code"),
    ".cl": "OpenCL",
    ".d": "D",
    ".go": "Go",
    ".hip": "HIP",
    ".ispc": "ISPC",
    ".jl": "Julia",
    ".mojo": "Mojo",
    ".pas": "Pascal",
    ".ptx": "PTX",
    ".py": "Python",
    ".rs": "Rust",
    ".zig": "Zig",
}


def language_of(kind: DeviceKind, file: str, where: str) -> Language:
    """Return the language that a device kind's compiler takes `file` for.

    Args:
        file: of a template or source; a trailing ``.j2`` does not count.
        where: the key of the document that names the file.

    Raises:
        InvalidInput: the suffix names a language that is not compiled for this kind.
    """
    if kind == "cuda":
        return "cuda"
    suffix = PurePosixPath(file.removesuffix(".j2")).suffix
    if suffix in _CPP:
        return "c++"
    if suffix in (".cu", ".cuh"):
        raise InvalidInput(where, f"{file} is CUDA: give it under [cuda]; [cpu] takes C (.c) and C++ (.cpp, .cc, .cxx)")
    if suffix in _OTHERS:
        raise InvalidInput(where, f"{file} is {_OTHERS[suffix]}: [cpu] takes C (.c) and C++ (.cpp, .cc, .cxx)")
    return "c"
