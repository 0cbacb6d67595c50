"""Renders a CUDA kernel with replacements for PTX and CUDA's headers, compiles it for the host, and runs it."""

import atexit
import ctypes
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.device import Device
from evo.family import Launch, Operand, TensorMap
from evo.family.argument import JUDGED
from evo.family.problem import Problem
from evo.reference.encoding import decoded, stored
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import Package
from templates.render import render
from tests.builds import LIMIT_BYTES, ROOT
from workers.backends.cpu.memory import HostBuffers
from workers.build.cache import Cache, cache_key
from workers.build.kernel import Argument

HERE = Path(__file__).parent
STAND_INS = {
    "include/ptx.cuh": HERE / "ptx.cuh",
    "include/tensor_map.cuh": HERE / "tensor_map.cuh",
    "include/wgmma.cuh.j2": HERE / "wgmma.cuh.j2",
    "wmma.cuh": HERE / "wmma.cuh",
}
PLAIN = f'#include "{HERE / "ptx.cuh"}"\n#include "{HERE / "cuda.cuh"}"\n'
"""Include lines for a source that includes none of the replaced headers itself."""

ENTRY = """
extern "C" const char* NAME(
    void** arguments, const u32* grid, const u32* block, int bytes, u32 order, bool eager) {
    return simt::run([] { simt::call(ENTRY); }, arguments, grid, block, bytes, CLUSTER_SIZE, order, eager);
}
"""
FORWARD, BACKWARD = 0, 1
ORDERS = ((FORWARD, False), (BACKWARD, True), (3, False))
"""Values of `order` and `eager` with which tests run a kernel; see `HostKernel.__call__`."""
CLUSTER = re.compile(r"__cluster_dims__\((\d+)")

SLOW_PASSES = "tree-pta tree-sra tree-pre tree-ter tree-slsr tree-sink tree-ch tree-coalesce-vars ivopts shrink-wrap"
SLOW_PASSES += " guess-branch-probability ipa-pure-const ipa-reference ipa-profile move-loop-invariants if-conversion"
"""Optimisations of g++ that are disabled, because building and running a test is a seventh faster without them."""

FLAGS = ("-std=c++17", "-O1", *(f"-fno-{each}" for each in SLOW_PASSES.split()), "-w", "-fPIC", "-U_FORTIFY_SOURCE")
"""Compiler flags. `ptx.cuh` undefines _FORTIFY_SOURCE too, but after the precompiled headers, which need this flag."""

CHECKED = ("-DCHECK_ORDER", "-fsanitize=thread", "-fno-threadsafe-statics")
"""Flags of a kernel whose accesses to shared memory are checked. The linker must not get them: `ptx.cuh` defines the
functions that the compiler calls for every access, instead of the library of ThreadSanitizer."""

STANDARD = re.compile(r"^#include <[\w.]+>$", re.MULTILINE)


BUILT = Cache(ROOT / "build" / "tests" / "host", limit_bytes=LIMIT_BYTES)
"""Compiled libraries of earlier runs in this clone. Compilation takes most of the time of a test."""


def compiler() -> str | None:
    return shutil.which("g++")


@dataclass(frozen=True, kw_only=True)
class HostKernel:
    """A config of a CUDA family for one problem, callable without a GPU."""

    operands: tuple[Operand, ...]
    launch: Launch
    functions: tuple[Any, ...]

    def __call__(
        self, inputs: Mapping[str, NDArray[Any]], *, order: int = FORWARD, eager: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Return the outputs' values by name.

        Args:
            inputs: input values by name, as the family's reference generates them.
            order: order of threads, warps and blocks: `FORWARD`, `BACKWARD`, or the seed of a shuffle.
            eager: if True, asynchronous copies happen immediately; otherwise they happen as late as allowed.

        Raises:
            AssertionError: a thread did something that a GPU does not allow, or wrote outside its buffers.
        """
        arguments = [
            Argument(name=each.name, role=each.role, dtype=each.dtype, shape=each.shape, value=each.value)
            for each in self.operands
        ]
        buffers = HostBuffers(arguments, dict(inputs))
        buffers.restore()
        for each in self.operands:
            if each.init is not None:
                buffers.arrays[each.name].values[...] = each.init
        passed = buffers.call_arguments
        addresses = {
            argument.name: ctypes.addressof(value) if argument.role == "scalar" else value.value
            for argument, value in zip(arguments, passed, strict=True)
        }
        for function, launch in zip(self.functions, self.launch.each, strict=True):
            _run(function, launch, addresses, order=order, eager=eager)
        damage = buffers.damage()
        assert damage is None, damage
        outputs = [each for each in self.operands if each.role in JUDGED]
        return {each.name: decoded(buffers.read(each.name), each.dtype) for each in outputs}


def _run(function: Any, launch: Launch, addresses: Mapping[str, int], *, order: int, eager: bool) -> None:
    """Run one launch; `addresses` contains the address of every argument by name, in order."""
    maps = [described(each, addresses[each.of]) for each in launch.tensor_maps]
    chosen = [addresses[name] for name in launch.arguments or addresses] + [each.ctypes.data for each in maps]
    pointers = (ctypes.c_void_p * len(chosen))(*chosen)
    grid, block = ((ctypes.c_uint * 3)(*size) for size in (launch.grid, launch.block))
    fault = function(pointers, grid, block, launch.shared_memory_bytes, order, eager)
    assert not fault, fault.decode()


def build(
    package: Package, config: Config, problem: Problem, device: Device, *, check_order: bool = False
) -> HostKernel:
    """Compile one config with g++. A process compiles equal sources once.

    Args:
        check_order: whether accesses to shared memory that no barrier orders are faults (`include/order.cuh`). Such a
            kernel runs ten to fifteen times as long.

    Raises:
        AssertionError: the source does not compile. The message is the output of the compiler.
    """
    candidate = package.family.candidate(config, problem, device, Objective())
    files = {name: STAND_INS[name].read_bytes() if name in STAND_INS else text for name, text in package.files.items()}
    text = render(replace(package, files=files), "cuda", config, problem, candidate.derived)
    implementation = package.family.implementation("cuda")
    if implementation.mode == "source":
        text = PLAIN + text
    names = [f"run_{index}" for index in range(len(implementation.entries))]
    cluster = CLUSTER.search(text)
    launched = ENTRY.replace("CLUSTER_SIZE", cluster[1] if cluster else "1")
    for name, entry in zip(names, implementation.entries, strict=True):
        text += launched.replace("NAME", name).replace("ENTRY", entry)
    library = _library(text, CHECKED if check_order else ())
    functions = tuple(library[name] for name in names)
    for function in functions:
        function.restype = ctypes.c_char_p
    assert candidate.launch is not None
    return HostKernel(operands=candidate.operands, launch=candidate.launch, functions=functions)


@cache
def _library(text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    """Compile and load a source. The files are deleted once the library is loaded."""
    key = cache_key(_tools(), *flags, text)
    with tempfile.TemporaryDirectory(prefix="kernel-evo-host-") as folder:
        source, unlinked, made = (Path(folder) / f"kernel.{suffix}" for suffix in ("cpp", "o", "so"))
        if (kept := BUILT.get(key)) is not None:
            made.write_bytes(kept)
        else:
            source.write_text(text, encoding="utf-8")
            _compile(*flags, f"-I{HERE / 'include'}", "-include", _standard_headers(), "-c", "-o", unlinked, source)
            _compile("-shared", "-o", made, unlinked)
            BUILT.put(key, made.read_bytes())
        return ctypes.CDLL(str(made))


@cache
def _tools() -> str:
    """Return the part of the cache key that all libraries share: compiler, machine, flags, the files of this folder."""
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    files = sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return "\n".join([version, platform.machine(), *FLAGS, *(path.read_text(encoding="utf-8") for path in files)])


@cache
def _standard_headers() -> Path:
    """Precompile the standard headers of `ptx.cuh`, because parsing them takes a quarter of a build."""
    folder = Path(tempfile.mkdtemp(prefix="kernel-evo-host-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    header = folder / "standard.hpp"
    header.write_text("\n".join(STANDARD.findall((HERE / "ptx.cuh").read_text())))
    _compile("-x", "c++-header", "-o", f"{header}.gch", header)
    return header


def _compile(*arguments: object) -> None:
    command = ["g++", *FLAGS, *map(str, arguments)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr[:4000]


def described(tensor_map: TensorMap, address: int) -> NDArray[Any]:
    """Encode a tensor map for `tensor_map.cuh`, which cannot decode the driver's encoding."""
    shape, box = (tuple(reversed(each)) for each in (tensor_map.shape, tensor_map.box))
    words = np.zeros(32, np.uint32)
    words[:2].view(np.uint64)[0] = address
    words[2:5] = len(shape), stored(tensor_map.dtype).itemsize, tensor_map.swizzle
    words[6 : 6 + len(shape)], words[11 : 11 + len(box)] = shape, box
    return words


def error(outputs: Mapping[str, NDArray[Any]], exact: Mapping[str, NDArray[Any]]) -> float:
    """Return the largest relative L2 error of the outputs; NaN if any value is NaN."""
    errors = [
        np.linalg.norm(outputs[name].astype(np.float64) - exact[name]) / np.linalg.norm(exact[name]) for name in exact
    ]
    return float(np.max(errors))
