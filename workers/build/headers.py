"""Advice on headers that a compiler did not find."""

import re
from collections.abc import Iterator
from pathlib import Path

from workers.build import Unit
from workers.build.toolkit import include_folders

_MISSING = re.compile(
    r"""(?:cannot|could\ not)\ open\ source\ file\ "(?P<nvrtc>[^"]+)"|
        fatal\ error:\ (?P<gcc>[^:\n]+):\ No\ such\ file|fatal\ error:\ '(?P<clang>[^']+)'\ file\ not\ found""",
    re.VERBOSE,
)
_C_HEADERS = frozenset(
    """
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
    stdbool stddef stdint stdio stdlib string tgmath threads time uchar wchar wctype
    """.split()  # noqa: SIM905 - as a list it is three times as long
)
_CPP_HEADERS = frozenset(
    """
    algorithm any array atomic barrier bit bitset charconv chrono codecvt compare complex concepts condition_variable
    coroutine deque exception execution expected filesystem format forward_list fstream functional future generator
    initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map mdspan memory
    memory_resource mutex new numbers numeric optional ostream print queue random ranges ratio regex scoped_allocator
    semaphore set shared_mutex source_location span sstream stack stacktrace stdexcept stop_token streambuf string
    string_view strstream syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map
    unordered_set utility valarray variant vector version
    """.split()  # noqa: SIM905 - as a list it is three times as long
)
_BUILT_IN = frozenset({"math.h", "cmath", "stdio.h", "cstdio", "string.h", "cstring", "stdlib.h", "cstdlib"})
"""Headers whose functions for device code NVRTC declares by itself, ``printf`` and ``memcpy`` among them."""

_CCCL = ("cub/", "thrust/", "cuda/", "nv/")


def missing_header(log: str, unit: Unit) -> Iterator[str]:
    """Return a sentence for each header that was not found, with what to include instead."""
    for match in _MISSING.finditer(log):
        name = next(each for each in match.groups() if each is not None).strip()
        yield _under_nvrtc(name) if unit.language == "cuda" else _under_c(name, unit)


def is_standard(name: str) -> bool:
    """Return True for a header of the C or C++ standard library."""
    return name in _CPP_HEADERS or (name.removesuffix(".h") in _C_HEADERS and name.endswith(".h")) or _of_c(name)


def _of_c(name: str) -> bool:
    return name.startswith("c") and name[1:] in _C_HEADERS


def counterpart(name: str) -> str | None:
    """Return the header of CUDA's C++ library that replaces a standard one, if it is installed."""
    cpp = f"c{name.removesuffix('.h')}" if name.endswith(".h") else name
    found = any((Path(folder) / "cuda/std" / cpp).is_file() for folder in include_folders())
    return f"cuda/std/{cpp}" if found and is_standard(name) else None


def _under_nvrtc(name: str) -> str:
    if not is_standard(name):
        if name.startswith(_CCCL):
            way = "it is part of CUDA's C++ libraries: pip install 'cuda-toolkit[cccl]', of your CUDA version"
            return f"<{name}> is not installed: {way}"
        return f'{_nowhere(name)}: put it there, or name its folder with `flags = ["-I/its/folder"]` under [cuda]'
    guarded = f"`#ifndef __CUDACC_RTC__`, `#include <{name}>`, `#endif` in three lines"
    other = counterpart(name)
    if name in _BUILT_IN:
        instead = f"its functions for device code are built in: remove the line, or write {guarded}"
    elif other is not None:
        instead = f"write `#include <{other}>` in its place"
    else:
        instead = f"nothing for device code takes its place: remove the line, or write {guarded}"
    return f"NVRTC has no standard library, so no <{name}>: {instead}"


def _under_c(name: str, unit: Unit) -> str:
    if unit.language == "c" and (name in _CPP_HEADERS or _of_c(name)):
        return f"<{name}> is a header of C++, and the source is compiled as C: name it .cpp, .cc or .cxx"
    return f'{_nowhere(name)}: put it there, or name its folder with `flags = ["-I/its/folder"]` under [cpu]'


def _nowhere(name: str) -> str:
    return f"{name} is neither beside the source, nor in the family's folder, nor where the compiler looks by itself"
