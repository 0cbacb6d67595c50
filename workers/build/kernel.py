"""Compiled kernels with the data needed to call them, and the mechanisms that their binaries use.

Mechanisms are hardware features, such as tensor cores, that can be recognised by the kernel's instructions.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evo.family import DRAWN, JUDGED, Launch, Role
from evo.reference.encoding import encoded, stored
from workers.build import Artefact
from workers.build.cache import Cache, cache_key
from workers.system.program import run


@dataclass(frozen=True, kw_only=True)
class Argument:
    """One parameter of a kernel, for one problem.

    Attributes:
        dtype: name of the dtype, e.g. ``float32``.
        shape: number of elements per dimension. Empty for a scalar.
        value: value of a scalar, or None for an array.
        alignment: minimum alignment in bytes that the kernel may rely on, if it is larger than that of the dtype.
        init: value that every element must have before a call, or None if any contents are allowed.
        init_timed: True if the call fills the array with `init`, as part of its time. False if the caller fills it.
    """

    name: str
    role: Role
    dtype: str
    shape: tuple[int, ...] = ()
    value: int | float | None = None
    alignment: int = 1
    init: int | float | None = None
    init_timed: bool = True

    @property
    def drawn(self) -> bool:
        """True if the argument is an input, whose contents reference.py generates."""
        return self.role in DRAWN

    @property
    def judged(self) -> bool:
        """True if the argument is an output, whose contents are checked."""
        return self.role in JUDGED

    @property
    def written(self) -> bool:
        """True if the kernel may write to the array."""
        return self.role not in ("input", "scalar")

    @property
    def restored(self) -> bool:
        """True if callers must restore the contents before each call."""
        return self.role == "inout" or (self.init is not None and not self.init_timed)

    @property
    def filled(self) -> bool:
        """True if the call first fills the array with `init`."""
        return self.init is not None and self.init_timed

    @property
    def pattern(self) -> bytes:
        """Eight bytes with repeated copies of `init`, which must not be None."""
        return np.repeat(encoded(np.asarray([self.init]), self.dtype).astype(self.stored), 8).tobytes()[:8]

    def initial_bytes(self) -> bytes:
        """Return the bytes of an array in which all elements equal `init`."""
        return (self.pattern * -(-self.bytes // 8))[: self.bytes]

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def stored(self) -> "np.dtype[Any]":
        """NumPy dtype in which the argument is stored."""
        return stored(self.dtype)

    @property
    def bytes(self) -> int:
        return self.elements * self.stored.itemsize


@dataclass(frozen=True, kw_only=True)
class KernelFile:
    """A binary, with the data needed to call it for one problem. `launch` is None if the call is a plain function."""

    path: str
    entry: str
    arguments: tuple[Argument, ...]
    launch: Launch | None = None

    @property
    def steps(self) -> tuple["Step", ...]:
        """Launches of one call, in order. Empty for a plain function."""
        return steps(self.entry, self.arguments, self.launch)


@dataclass(frozen=True, kw_only=True)
class Step:
    """One launch of a call: a kernel function, its arguments and its launch configuration."""

    entry: str
    arguments: tuple[Argument, ...]
    launch: Launch


def dynamic_shared_bytes(launches: Sequence[Step]) -> dict[str, int]:
    """Return the maximum dynamic shared memory in bytes over all launches of a function, by function name.

    A function with more than 48 KiB of shared memory needs an attribute that permits this size. The attribute belongs
    to the function, not to a launch, so it must be set to the maximum over all launches.
    """
    most: dict[str, int] = {}
    for each in launches:
        most[each.entry] = max(most.get(each.entry, 0), each.launch.shared_memory_bytes)
    return most


def steps(entry: str, arguments: Sequence[Argument], launch: Launch | None) -> tuple[Step, ...]:
    """Return the launches of one call of `entry`, in order. The result is empty for a plain function."""
    by_name = {each.name: each for each in arguments}
    return tuple(
        Step(
            entry=each.entry or entry,
            arguments=tuple(by_name[name] for name in each.arguments) if each.entry else tuple(arguments),
            launch=each,
        )
        for each in (() if launch is None else launch.each)
    )


PTX: Mapping[str, str] = {
    "wgmma": r"\bwgmma\.mma_async",
    "mma": r"\b(?:mma|wmma\.mma)\.sync",
    "tma": r"\bcp\.async\.bulk",
    "async": r"\bcp\.async\.c[ag]\b",
    "shuffle": r"\b(?:shfl|redux)\.sync",
    "shared memory": r"\b(?:ld|st|ldmatrix)\b[\w.:]*\.shared",
    "vector access": r"\b(?:ld|st)\.[\w.:]*\.v[248]\b",
}
"""Patterns of PTX instructions by mechanism (docs.nvidia.com/cuda/parallel-thread-execution)."""

_PACKED = re.compile(
    r"\s(?:v?(?:add|sub|mul|div|max|min|sqrt|fn?m(?:add|sub)\w*)p[sdh]|vp(?:add|sub|mul|madd|dp)\w+)\s(?P<x86>.*)"
    r"|\sf(?:add|sub|mul|div|max|min|ml[as]|sqrt)\w*\s+(?P<arm>v\d+\.\d+[hsd]|z\d+\.[hsd])"
)
_FUSED = re.compile(r"\s(?:vfn?m(?:add|sub)\w+|fn?m(?:add|sub|la|ls))\s")
_THREADS = re.compile(r"<(?:(?:pthread_create|thrd_create|GOMP_parallel\w*|__kmpc_fork_call)@plt|\w*std6thread\w*)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_WIDTHS = {"zmm": "SIMD 512", "ymm": "SIMD 256", "xmm": "SIMD 128"}
_ANSWER_S = 20.0


def mechanisms(artefact: Artefact, cache: Cache) -> tuple[str, ...]:
    """Return the hardware mechanisms that a binary uses, e.g. ``wgmma`` or ``SIMD 512``.

    The mechanisms of a GPU kernel are found in its PTX. The library of a CPU kernel is disassembled, and its mechanisms
    are cached. The result is empty if the instructions cannot be read on this machine.
    """
    if artefact.ptx:
        return of_ptx(artefact.ptx.decode(errors="replace"))
    patterns = (_PACKED.pattern, _FUSED.pattern, _THREADS.pattern)
    key = cache_key("mechanisms", *patterns, hashlib.sha256(artefact.binary).hexdigest())
    if (kept := cache.get(key)) is not None:
        return tuple(json.loads(kept))
    listing = _disassembly(artefact.binary)
    if listing is None:
        return ()
    found = of_disassembly(listing)
    cache.put(key, json.dumps(found).encode())
    return found


def _disassembly(binary: bytes) -> str | None:
    """Return the disassembly of a library by ``objdump`` from GNU binutils or LLVM; None without it or if it fails."""
    program = shutil.which("objdump")
    if program is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.so").write_bytes(binary)
        listing = Path(folder, "listing")
        command = ["sh", "-c", 'exec "$0" -d --no-show-raw-insn kernel.so >listing', program]
        status, _ = run(command, Path(folder), _ANSWER_S)
        return listing.read_text(errors="replace") if status == 0 else None


def of_ptx(text: str) -> tuple[str, ...]:
    """Return the mechanisms in PTX. The first one is ``scalar`` if the PTX has no matrix instructions."""
    plain = _COMMENT.sub(" ", text)
    found = tuple(name for name, pattern in PTX.items() if re.search(pattern, plain))
    return found if {"mma", "wgmma"} & {*found} else ("scalar", *found)


def of_disassembly(text: str) -> tuple[str, ...]:
    """Return the mechanisms in the disassembly of a library: vector width, fused multiply-add, threads."""
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
