"""Finds the code of a CUDA source that only a host compiler understands, so that NVRTC can skip it.

NVRTC compiles neither host functions nor headers of the host. It defines ``__CUDACC_RTC__``, which nvcc does not.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Set

from evo.family.importing.braces import Marks
from evo.family.source.standard_headers import BUILT_IN, is_standard

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>[ \t]*$", re.MULTILINE)
_HOST_HEADERS = re.compile(
    r"(?:torch|ATen|c10|pybind11|sys)/.*|cuda\.h|cublas\w*\.h|cudnn\.h|nccl\.h|curand\.h|omp\.h|unistd\.h"
)
_CUB = re.compile(r"\bcub::(Block|Warp)([A-Z]\w*)")
_BEYOND_BUILT_IN = re.compile(r"\b(?:INFINITY|NAN|HUGE_VALF?)\b|\bstd::")
"""Matches names for which NVRTC needs ``<cuda/std/cmath>``, which takes seconds to compile."""
_DEVICE = re.compile(r"\b(?:__global__|__device__|__constant__|constexpr|using|typedef|friend|return)\b")
_NO_FUNCTION = re.compile(r"\b(?:class|struct|union|enum|namespace)\b(?![^()]*\()|=\s*\Z")
_HOST_MACROS = ("PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_IMPL", "TORCH_LIBRARY_FRAGMENT")
_TEMPLATE = re.compile(r"\btemplate\s*<[^()]*?>\s*(?=[\w:])")
_DEVICE_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[^\n]*\b__(?:device|global)__", re.MULTILINE)
_LONGEST_HEAD = 2_000
"""Number of characters of the longest declaration that is read."""
_OPEN = re.compile(r'\bnamespace\b[^(){};]*\Z|\bextern\s*"C"\s*\Z')
"""Matches the text before the brace of a block whose definitions are at file scope."""
_FUNCTION = re.compile(r"\b\w+\s*\(.*\)\s*(?:const|noexcept|\s)*(?:->[^;{}]*)?\Z", re.DOTALL)
_ITEM_END = re.compile(r"[{};]|^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)


def device_includes(text: str) -> dict[int, str]:
    """Return the lines that replace includes of headers that NVRTC lacks, by line number from 0.

    A header of the standard library is replaced with its counterpart in CUDA's C++ library, if this exists.
    ``cub/cub.cuh``, which NVRTC refuses, is replaced with the headers of the classes that the text uses.
    """
    found = dict[int, str]()
    for each in _INCLUDE.finditer(text):
        replaced = _device_include(each[1], text)
        if replaced is not None:
            lines = ["#ifndef __CUDACC_RTC__", each[0].strip(), *replaced, "#endif"]
            found[text.count("\n", 0, each.start())] = "\n".join(lines)
    return found


def _device_include(name: str, text: str) -> list[str] | None:
    """Return the lines that replace the include of a header under NVRTC; None if the include can stay."""
    if name == "cub/cub.cuh":
        used = dict.fromkeys((each[1].lower(), _snake(f"{each[1]}{each[2]}")) for each in _CUB.finditer(text))
        return ["#else", *(f"#include <cub/{folder}/{file}.cuh>" for folder, file in used)] if used else None
    if name in BUILT_IN and not _BEYOND_BUILT_IN.search(text):
        return []
    if is_standard(name):
        other = f"cuda/std/c{name.removesuffix('.h')}" if name.endswith(".h") else f"cuda/std/{name}"
        return [f"#elif __has_include(<{other}>)", f"#include <{other}>"]
    return [] if _HOST_HEADERS.fullmatch(name) else None


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def host_functions(plain: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line, from 0, of each declaration and definition of a host function at file scope.

    A function that shares a line with other code or with a comment of several lines is left out.

    Args:
        plain: source without comments.
        text: source with comments.
    """
    bare, full = plain.split("\n"), text.split("\n")
    begins = [0, *(each.end() for each in re.finditer("\n", plain))]
    for begin, end in _host_code(plain):
        first, last = bisect_right(begins, begin) - 1, bisect_right(begins, end - 1) - 1
        alone = not plain[begins[first] : begin].strip() and not bare[last][end - begins[last] :].strip(" \t;")
        if alone and full[first].startswith(bare[first].rstrip()) and "/*" not in full[last]:
            yield first, last


def _host_code(plain: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end position of each host function at file scope."""
    device = {each[1] for each in _DEVICE_MACRO.finditer(plain)}
    marks, start, end = Marks(plain), 0, 0
    for found in _ITEM_END.finditer(plain):
        if found.start() < end:
            continue
        head = plain[start : found.start()]
        start = end = found.end()
        if found[0] == "{" and not _OPEN.search(head[-_LONGEST_HEAD:]):
            start = end = min(len(plain), marks.closing(found.start()) + 1)
        if found[0] in "{;" and _is_host_function(head.strip(), device):
            yield found.start() - len(head.lstrip()), end


def _is_host_function(head: str, device: Set[str]) -> bool:
    """Return True if a text before a brace or semicolon declares a function without device code.

    A word in capitals may be a macro for ``__device__``, so a function with such a word is not a host function.
    """
    if len(head) > _LONGEST_HEAD or _DEVICE.search(head) or _NO_FUNCTION.search(head):
        return False
    begun = _TEMPLATE.sub("", head).partition("(")[0]
    if begun in _HOST_MACROS:
        return True
    words = re.findall(r"\w+", begun)
    capitals = any(len(word) > 1 and word.isupper() for word in words)
    return len(words) > 1 and not capitals and not device & set(words) and _FUNCTION.search(head) is not None
