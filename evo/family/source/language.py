"""Language of a kernel's source, determined by the suffix of its file."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Literal

from evo.device import DeviceKind, kind_of
from evo.errors import InvalidInput

Language = Literal["c", "c++", "cuda", "triton", "own"]
"""``own``: a language that only the compiler of its device kind supports."""
LANGUAGES: Mapping[Language, str] = {"c": "C", "c++": "C++", "cuda": "CUDA", "triton": "Triton", "own": "its kind's"}

_CPP = frozenset({".cpp", ".cc", ".cxx", ".c++", ".cp", ".C", ".CPP", ".hpp", ".hh", ".hxx"})
_TAKEN = "C (.c) or C++ (.cpp, .cc, .cxx)"
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
        "volatile", "while", "asm", "typeof", "_Alignas", "_Alignof", "_Atomic", "_BitInt", "_Bool", "_Complex",
        "_Generic", "_Imaginary", "_Noreturn", "_Static_assert", "_Thread_local",
    ]
)  # fmt: skip
_CPP_ALONE = frozenset(
    [
        "alignas", "alignof", "bool", "catch", "char8_t", "char16_t", "char32_t", "class", "concept", "consteval",
        "constexpr", "constinit", "const_cast", "co_await", "co_return", "co_yield", "decltype",
        "delete", "dynamic_cast", "explicit", "export", "false", "friend", "mutable",
        "namespace", "new", "noexcept", "nullptr", "operator", "private", "protected", "public",
        "reinterpret_cast", "requires", "static_assert", "static_cast", "template", "this", "thread_local",
        "throw", "true", "try", "typeid", "typename", "using", "virtual", "wchar_t",
    ]
)  # fmt: skip


_CPP_OPERATORS = frozenset(
    ["and", "and_eq", "bitand", "bitor", "compl", "not", "not_eq", "or", "or_eq", "xor", "xor_eq"]
)
_PREPROCESSOR = frozenset(["defined", "_Pragma"])
_UNDEFINED_BY_HEADERS = frozenset(
    [
        "assert", "CHAR_BIT", "CHAR_MAX", "CHAR_MIN", "errno", "INT_MAX", "INT_MIN", "LLONG_MAX", "LLONG_MIN",
        "LONG_MAX", "LONG_MIN", "NULL", "offsetof", "SCHAR_MAX", "SCHAR_MIN", "SHRT_MAX", "SHRT_MIN", "UCHAR_MAX",
        "UINT_MAX", "ULLONG_MAX", "ULONG_MAX", "USHRT_MAX",
        *(f"{kind}_{limit}" for kind in ("FLT", "DBL", "LDBL") for limit in ("DIG", "EPSILON", "MAX", "MIN")),
    ]
)  # fmt: skip
"""Macros that a C header undefines and defines again, without a warning."""

PREDEFINED = frozenset(["i386", "linux", "unix"])
"""Macros without underscores that compilers define for their platform."""

_CUDA_VARIABLES = frozenset(["blockDim", "blockIdx", "gridDim", "threadIdx", "warpSize"])


def reserved_for(name: str, language: Language) -> str | None:
    """Return the reason why a macro must not have this name, e.g. ``a keyword of C++``; None if the name is free."""
    cpp, called = language != "c", LANGUAGES[language]
    meanings = {
        f"a keyword of {called}": name in _C or (cpp and name in _CPP_ALONE),
        f"an operator of {called}": cpp and name in _CPP_OPERATORS,
        f"a preprocessor operator of {called}": name in _PREPROCESSOR,
        "a variable of CUDA": language == "cuda" and name in _CUDA_VARIABLES,
        "a macro of the C library, whose header would replace it without a warning": name in _UNDEFINED_BY_HEADERS,
        "reserved for compilers, as are all names that begin with `__`": name.startswith("__"),
    }
    return next((meaning for meaning, applies in meanings.items() if applies), None)


def language_of(kind: DeviceKind, file: str, where: str) -> Language:
    """Return the language of a file, as compiled for a device kind.

    Args:
        file: path of a template or source. A trailing ``.j2`` is ignored.
        where: location of the path in the document, used in error messages.

    Raises:
        InvalidInput: the suffix belongs to a language that the device kind does not compile.
    """
    sources = kind_of(kind).sources
    if sources != "c":
        return sources
    suffix = PurePosixPath(file.removesuffix(".j2")).suffix
    if suffix in _CPP:
        return "c++"
    if suffix in (".cu", ".cuh"):
        raise InvalidInput(where, f"{file} is CUDA; declare it under [cuda], because [{kind}] accepts only {_TAKEN}")
    if suffix in _OTHERS:
        raise InvalidInput(where, f"{file} is {_OTHERS[suffix]}; it must be {_TAKEN} under [{kind}]")
    return "c"
