"""Runs one candidate in a process that launches no other kernel, for tools such as sanitizers.

The only command-line argument is the path of a file with a list of `Plan`, one for each case. Each buffer is a separate
allocation of exact size, so that a tool can detect accesses out of bounds. Only inputs, initial values and Triton's own
scratch memory are written, so that a tool can detect reads of unwritten memory.
"""

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from evo.family.source.triton.compiled import SCRATCH
from workers.backends.cuda.launch import BoundCall, error_name, library
from workers.build.kernel import Argument, KernelFile, dynamic_shared_bytes

DONE = "kernel-evo: launched"
"""Line that this program prints after all launches have succeeded."""

_DYNAMIC_SHARED_BYTES = 8
"""Value of the CUDA constant ``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The kernel of a case, its inputs, and the number of calls.

    Attributes:
        inputs: folder with the bytes of each input, ``NAME.bin``.
        launches: number of calls of the kernel on the same buffers. Inputs and initial values are written before each
            call. A call of a kernel with several steps makes several launches.
    """

    kernel: KernelFile
    inputs: str
    launches: int = 1


PLANS: TypeAdapter[Sequence[Plan]] = TypeAdapter(Sequence[Plan])


class Failed(Exception):
    """Raised if a call of the CUDA driver failed, or the kernel has no launch."""


def run(plans: Sequence[Plan]) -> None:
    """Run all calls of each plan in order.

    Raises:
        Failed: a call of the CUDA driver failed, or the kernel has no launch.
    """
    _open()
    for plan in plans:
        _run(plan)


def _run(plan: Plan) -> None:
    """Run all calls of a plan. Then free the buffers, so that buffers of different plans never exist together."""
    kernel = plan.kernel
    if kernel.launch is None:
        raise Failed("the kernel has no launch")
    module = _loaded(Path(kernel.path).read_bytes())
    most = dynamic_shared_bytes(kernel.steps)
    functions = [_function(module, step.entry, most[step.entry]) for step in kernel.steps]
    buffers = [each for each in kernel.arguments if each.role != "scalar"]
    pointers = {each.name: _buffer(each) for each in buffers}
    for each in buffers:
        if (
            each.name in SCRATCH
        ):  # zeroed, because initcheck does not detect the tensor maps that Triton's kernels write there
            _call("cuMemsetD8_v2", ctypes.c_uint64(pointers[each.name]), 0, ctypes.c_size_t(each.bytes))
    bound = BoundCall(functions, kernel.steps, kernel.arguments, pointers, stream=0)
    for _ in range(plan.launches):
        for each in kernel.arguments:
            if each.drawn or each.init is not None:
                _fill(each, pointers[each.name], Path(plan.inputs))
        bound()
        _call("cuCtxSynchronize")
    for pointer in pointers.values():
        _call("cuMemFree_v2", ctypes.c_uint64(pointer))
    _call("cuModuleUnload", module)


def _open() -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    _call("cuInit", 0)
    _call("cuDeviceGet", ctypes.byref(device), 0)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    _call("cuCtxSetCurrent", context)


def _loaded(binary: bytes) -> ctypes.c_void_p:
    module = ctypes.c_void_p()
    _call("cuModuleLoadData", ctypes.byref(module), binary)
    return module


def _function(module: ctypes.c_void_p, entry: str, dynamic_bytes: int) -> int:
    function = ctypes.c_void_p()
    _call("cuModuleGetFunction", ctypes.byref(function), module, entry.encode())
    if dynamic_bytes:
        _call("cuFuncSetAttribute", function, _DYNAMIC_SHARED_BYTES, dynamic_bytes)
    return function.value or 0


def _buffer(argument: Argument) -> int:
    pointer = ctypes.c_uint64()
    _call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(argument.bytes, 1)))
    return pointer.value


def _fill(argument: Argument, pointer: int, inputs: Path) -> None:
    """Write the contents that a buffer must have before a call to device memory."""
    content = argument.initial_bytes() if argument.init is not None else (inputs / f"{argument.name}.bin").read_bytes()
    _call("cuMemcpyHtoD_v2", ctypes.c_uint64(pointer), content, ctypes.c_size_t(len(content)))


def _call(name: str, *arguments: Any) -> None:
    if status := getattr(library(), name)(*arguments):
        raise Failed(f"{name}: {error_name(status)}")


def main(path: str) -> int:
    try:
        run(PLANS.validate_json(Path(path).read_bytes()))
    except Exception as error:  # noqa: BLE001 - the tool reports only the message
        sys.stdout.write(f"kernel-evo: {error}\n")
        return 3
    sys.stdout.write(f"{DONE}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
