"""Language of a kernel's source, by the suffix of its file."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Literal

from evo.device import DeviceKind, kind_of
from evo.errors import InvalidInput

Language = Literal["c", "c++", "cuda", "triton", "own"]
"""``own``: a language that only the compiler of its device kind supports."""
LANGUAGES: Mapping[Language, str] = {"c": "C", "c++": "C++", "cuda": "CUDA", "triton": "Triton", "own": "its kind's"}

_CPP = frozenset({".cpp", ".cc", ".cxx", ".c++", ".cp", ".C", ".CPP", ".hpp", ".hh", ".hxx"})
_TAKEN = "C (.c) and C++ (.cpp, .cc, .cxx)"
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


_C = frozenset(
    [
        "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
        "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return",
        "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void",
        "volatile", "while",
    ]
)  # fmt: skip
_CPP_ALONE = frozenset(
    [
        "alignas", "alignof", "asm", "bool", "catch", "char16_t", "char32_t", "class", "concept", "constexpr",
        "const_cast", "decltype", "delete", "dynamic_cast", "explicit", "export", "false", "friend", "mutable",
        "namespace", "new", "noexcept", "nullptr", "operator", "private", "protected", "public",
        "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this", "thread_local",
        "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t",
    ]
)  # fmt: skip


def is_keyword(name: str, language: Language) -> bool:
    """Return True for a word that the language keeps for itself, which no macro may replace."""
    return name in _C or (language != "c" and name in _CPP_ALONE)


def language_of(kind: DeviceKind, file: str, where: str) -> Language:
    """Return the language in which a device kind's compiler compiles `file`.

    Args:
        file: path of a template or source; a trailing ``.j2`` is ignored.
        where: the key of the document that names the file.

    Raises:
        InvalidInput: the suffix names a language that is not compiled for this kind.
    """
    sources = kind_of(kind).sources
    if sources != "c":
        return sources
    suffix = PurePosixPath(file.removesuffix(".j2")).suffix
    if suffix in _CPP:
        return "c++"
    if suffix in (".cu", ".cuh"):
        raise InvalidInput(
            where, f"{file} is CUDA: give it under [cuda]; [{kind}] takes C (.c) and C++ (.cpp, .cc, .cxx)"
        )
    if suffix in _OTHERS:
        raise InvalidInput(where, f"{file} is {_OTHERS[suffix]}: [{kind}] takes {_TAKEN}")
    return "c"
