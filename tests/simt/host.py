"""Renders a CUDA kernel with replacements for PTX, compiles it for the host, and runs it."""

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.device import Device
from evo.family import Operand, TensorMap
from evo.family.problem import Problem
from evo.reference.encoding import decoded, stored
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import Package
from templates.render import render
from workers.backends.cpu.memory import HostBuffers
from workers.build import Launch
from workers.build.kernel import Argument

HERE = Path(__file__).parent
STAND_INS = {
    "include/ptx.cuh": HERE / "ptx.cuh",
    "include/tensor_map.cuh": HERE / "tensor_map.cuh",
    "include/wgmma.cuh.j2": HERE / "wgmma.cuh.j2",
    "wmma.cuh": HERE / "wmma.cuh",
}
ENTRY = """
extern "C" const char* run(
    void** arguments, const u32* grid, const u32* block, int bytes, bool descending, bool eager) {
    return simt::run([] { simt::call(ENTRY); }, arguments, grid, block, bytes, descending, eager);
}
"""
ORDERS = ((False, False), (True, True))
"""Orders of execution: (last thread first, copies at once). These two differ most."""


def compiler() -> str | None:
    return shutil.which("g++")


@dataclass(frozen=True, kw_only=True)
class HostKernel:
    """A config of a CUDA family for one problem, callable without a GPU."""

    operands: tuple[Operand, ...]
    launch: Launch
    function: Any

    def __call__(
        self, inputs: Mapping[str, NDArray[Any]], *, descending: bool = False, eager: bool = False
    ) -> dict[str, NDArray[Any]]:
        """Return the outputs' values by name.

        Raises:
            AssertionError: a thread did something a GPU does not allow, or damaged foreign memory.
        """
        arguments = [
            Argument(name=each.name, role=each.role, dtype=each.dtype, shape=each.shape, value=each.value)
            for each in self.operands
        ]
        buffers = HostBuffers(arguments, dict(inputs))
        passed = buffers.call_arguments
        addresses = [
            ctypes.addressof(value) if argument.role == "scalar" else value.value
            for argument, value in zip(arguments, passed, strict=True)
        ]
        places = {argument.name: address for argument, address in zip(arguments, addresses, strict=True)}
        maps = [described(each, places[each.of]) for each in self.launch.tensor_maps]
        addresses += [each.ctypes.data for each in maps]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        grid, block = ((ctypes.c_uint * 3)(*size) for size in (self.launch.grid, self.launch.block))
        fault = self.function(pointers, grid, block, self.launch.shared_memory_bytes, descending, eager)
        assert not fault, fault.decode()
        assert buffers.damage() is None
        outputs = [each for each in self.operands if each.role == "output"]
        return {each.name: decoded(buffers.read(each.name), each.dtype) for each in outputs}


def build(package: Package, config: Config, problem: Problem, device: Device, folder: Path) -> HostKernel:
    """Compile one config with g++.

    Raises:
        AssertionError: it does not compile; the message is the compiler's.
    """
    candidate = package.family.candidate(config, problem, device, Objective())
    files = {name: STAND_INS[name].read_bytes() if name in STAND_INS else text for name, text in package.files.items()}
    text = render(replace(package, files=files), "cuda", config, problem, candidate.derived)
    text += ENTRY.replace("ENTRY", package.family.implementation("cuda").entry)
    path = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
    path.with_suffix(".cpp").write_text(text, encoding="utf-8")
    command = ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-o", f"{path}.so", f"{path}.cpp"]
    made = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr[:4000]
    function = ctypes.CDLL(f"{path}.so").run
    function.restype = ctypes.c_char_p
    assert candidate.launch is not None
    return HostKernel(operands=candidate.operands, launch=Launch(**vars(candidate.launch)), function=function)


def described(tensor_map: TensorMap, address: int) -> NDArray[Any]:
    """Return the description that the fake tensor map uses in place of the driver's encoding."""
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
