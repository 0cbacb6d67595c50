"""Finds the code of a CUDA source that only a host compiler understands, so that NVRTC can skip it.

NVRTC compiles neither host functions nor host headers. NVRTC defines ``__CUDACC_RTC__``, and nvcc does not.
"""

import re
from collections.abc import Iterator, Set

from tree_sitter import Node

from evo.family.importing.syntax import Code, parameter_list
from evo.family.source.standard_headers import BUILT_IN, is_standard

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<([^>\n]+)>[ \t]*$", re.MULTILINE)
_HOST_HEADERS = re.compile(
    r"(?:torch|ATen|c10|pybind11|sys)/.*|cuda\.h|cublas\w*\.h|cudnn\.h|nccl\.h|curand\.h|omp\.h|unistd\.h"
)
_CUB = re.compile(r"\bcub::(Block|Warp)([A-Z]\w*)")
_BEYOND_BUILT_IN = re.compile(r"\b(?:INFINITY|NAN|HUGE_VALF?)\b|\bstd::")
"""Matches names for which NVRTC needs ``<cuda/std/cmath>``, which takes seconds to compile."""
_DEVICE = frozenset({"__global__", "__device__", "__constant__", "constexpr", "friend"})
_HOST_MACROS = ("PYBIND11_MODULE", "TORCH_LIBRARY", "TORCH_LIBRARY_IMPL", "TORCH_LIBRARY_FRAGMENT")
_DEVICE_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[^\n]*\b__(?:device|global)__", re.MULTILINE)
_SCOPES = frozenset({"translation_unit", "namespace_definition", "declaration_list", "ERROR"})
"""Kinds of nodes whose definitions are at file scope."""


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


def host_functions(code: Code, text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and the last line, from 0, of each declaration and definition of a host function at file scope.

    A function that shares a line with other code or with a multi-line comment is left out.

    Args:
        code: source without comments.
        text: source with comments.
    """
    bare, full = code.content.split(b"\n"), text.split("\n")
    for node in _host_code(code):
        first, last = code.line(node.start_byte), code.line(node.end_byte)
        before = code.content[: node.start_byte].rpartition(b"\n")[2]
        after = code.content[node.end_byte :].partition(b"\n")[0]
        alone = not before.strip() and not after.strip(b" \t;")
        if alone and full[first].startswith(bare[first].decode().rstrip()) and "/*" not in full[last]:
            yield first, last


def _host_code(code: Code) -> Iterator[Node]:
    """Yield the host functions at file scope."""
    device = {each[1] for each in _DEVICE_MACRO.finditer(code.text)}
    waiting = [code.root]
    while waiting:
        node = waiting.pop()
        block = node.type == "linkage_specification" and node.named_children[-1].type == "declaration_list"
        if block or node.type in _SCOPES or node.type.startswith("preproc_"):
            waiting += reversed(node.named_children)
        elif _is_host_function(node, device):
            yield node


def _is_host_function(node: Node, device: Set[str]) -> bool:
    """Return True if a node declares or defines a host function.

    A function with a word in capitals before its parameters counts as device code, because the word may be a macro for
    ``__device__``. The only exceptions are macros such as ``PYBIND11_MODULE``.
    """
    while node.type in ("linkage_specification", "template_declaration"):
        node = node.named_children[-1]
    parameters = parameter_list(node)
    if parameters is None or node.type not in ("function_definition", "declaration", "template_instantiation"):
        return False
    before = (node.text or b"")[: parameters.start_byte - node.start_byte]
    words = re.findall(r"\w+", before.decode("utf-8", "replace"))
    capitals = any(len(word) > 1 and word.isupper() for word in words)
    return words[0] in _HOST_MACROS or (len(words) > 1 and not capitals and not (_DEVICE | device) & set(words))
