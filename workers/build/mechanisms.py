"""Mechanisms that a compiled kernel uses, read from its instructions: variants with equal ones share a niche."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from workers.build import Artefact
from workers.system.program import run

PTX: Mapping[str, str] = {
    "wgmma": r"\bwgmma\.mma_async",
    "mma": r"\b(?:mma|wmma\.mma)\.sync",
    "tma": r"\bcp\.async\.bulk",
    "async": r"\bcp\.async\.c[ag]\b",
    "shuffle": r"\b(?:shfl|redux)\.sync",
    "shared memory": r"\b(?:ld|st|ldmatrix)\b[\w.:]*\.shared",
    "vector access": r"\b(?:ld|st)\.[\w.:]*\.v[248]\b",
}
"""By mechanism, the instructions of PTX (docs.nvidia.com/cuda/parallel-thread-execution)."""

_PACKED = re.compile(
    r"\s(?:v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\w*)p[sdh]|vp(?:add|sub|mul|madd|dp)\w+)\s(?P<x86>.*)"
    r"|\sf(?:add|sub|mul|div|max|min|ml[as]|sqrt)\w*\s+(?P<arm>v\d+\.\d+[hsd]|z\d+\.[hsd])"
)
_FUSED = re.compile(r"\s(?:vfn?m(?:add|sub)\w+|fn?m(?:add|sub|la|ls))\s")
_THREADS = re.compile(r"<(?:(?:pthread_create|thrd_create|GOMP_parallel\w*|__kmpc_fork_call)@plt|\w*std6thread\w*)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WIDTHS = {"zmm": "SIMD 512", "ymm": "SIMD 256", "xmm": "SIMD 128"}
_ANSWER_S = 20.0


def mechanisms(artefact: Artefact) -> tuple[str, ...]:
    """Return the mechanisms of a kernel; empty if its instructions cannot be read here.

    PTX of a GPU is searched as it is. A library of a CPU is disassembled by ``objdump``, of GNU's binutils or LLVM.
    """
    if artefact.ptx:
        return of_ptx(artefact.ptx.decode(errors="replace"))
    program = shutil.which("objdump")
    if program is None:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.so").write_bytes(artefact.binary)
        listing = Path(folder, "listing")
        command = ["sh", "-c", 'exec "$0" -d --no-show-raw-insn kernel.so >listing', program]
        status, _ = run(command, Path(folder), _ANSWER_S)
        return of_disassembly(listing.read_text(errors="replace")) if status == 0 else ()


def of_ptx(text: str) -> tuple[str, ...]:
    """Return the mechanisms of PTX; ``scalar`` first if it multiplies no matrices."""
    plain = _COMMENT.sub(" ", text)
    found = tuple(name for name, pattern in PTX.items() if re.search(pattern, plain))
    return found if {"mma", "wgmma"} & {*found} else ("scalar", *found)


def of_disassembly(text: str) -> tuple[str, ...]:
    """Return the mechanisms of a disassembled library: vector width, fused multiplication and addition, threads."""
    return tuple(_of_disassembly(text))


def _of_disassembly(text: str) -> Iterator[str]:
    packed = [found["x86"] or found["arm"] for found in _PACKED.finditer(text)]
    widths = (width for register, width in _WIDTHS.items() if any(f"%{register}" in each for each in packed))
    if any(each.startswith("z") for each in packed):
        yield "SIMD scalable"
    else:
        yield next(widths, "SIMD 128" if any(each.startswith("v") for each in packed) else "scalar")
    if _FUSED.search(text):
        yield "FMA"
    if _THREADS.search(text):
        yield "threads"
