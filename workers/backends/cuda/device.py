"""NVIDIA GPUs as devices. CuPy is imported only when GPUs are listed, opened or measured."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evo.device import ENERGY, Device, DeviceKind, without_meter
from evo.device.gpu import capability, ceilings, limits
from evo.device.separation import SANDBOX
from evo.family import Launch
from evo.reference.library import use_gpu
from evo.trial.objective import Objective
from workers.backends import Buffers, CallMode, LaunchError, Timer
from workers.backends.cuda.buffers import DeviceBuffers, GuardedBuffer
from workers.backends.cuda.compilers.compiler import CudaCompiler
from workers.backends.cuda.compilers.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.backends.cuda.graph import SHORT_CALLS, GraphTimer, RestoredTimer
from workers.backends.cuda.launch import BoundCall, cuda_errors, driver_installed, static_shared_bytes
from workers.backends.cuda.machine import nvml
from workers.backends.cuda.machine.copy_bandwidth import CopyProcess, with_measured_copies
from workers.backends.cuda.machine.kept_survey import kept_survey
from workers.backends.cuda.machine.nvml import NvmlMeter
from workers.backends.cuda.machine.survey import NO_DRIVER, CudaUnusableError, index_of, surveyed
from workers.backends.cuda.memory import DeviceMemory
from workers.backends.cuda.support import SupportKernels, checksum, support_binary
from workers.backends.cuda.tools.profiler import NcuProfiler
from workers.backends.cuda.tools.sanitizer import CudaSanitizer
from workers.backends.energy import EnergyMeter, NoMeterError
from workers.build.kernel import Argument, Step, dynamic_shared_bytes, steps
from workers.system.log import log
from workers.system.sandbox import sandbox_here

_SELF_TEST_BYTES = 1 << 20
_RING_SHARE = 0.4
"""Fraction of the L2 cache that the buffers of hot calls may fill if each call needs separate buffers."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A loaded kernel.

    Attributes:
        module: CuPy's module, which keeps the kernel loaded.
        functions: CUDA driver handle (CUfunction) of each step.
        steps: launches of one call, in order.
    """

    module: Any
    functions: tuple[int, ...]
    steps: tuple[Step, ...]
    arguments: tuple[Argument, ...]


class CudaSession:
    """A `workers.backends.Session` on one GPU.

    Raises:
        CudaUnusableError: the GPU is no longer present, the driver cannot open it, or `support.cu` does not compile.
    """

    def __init__(self, device: Device, folder: Path, compiler: NvrtcCompiler) -> None:
        import cupy

        self._cuda: Any = cupy.cuda
        self._device = device
        self.cold_bytes = int(device.limits["l2_bytes"])
        try:
            with cuda_errors():
                index = index_of(device.uuid)
                cupy.cuda.Device(index).use()
                use_gpu(index)
                self._stream = cupy.cuda.Stream(non_blocking=True)
        except LaunchError as error:
            users = f"; it is in use by {', '.join(found)}" if (found := nvml.strangers(device.uuid)) else ""
            raise CudaUnusableError(f"{device.model} ({device.uuid}) cannot be opened: {error}{users}") from None
        binary = support_binary(compiler, device.architecture, folder)
        self._memory = DeviceMemory(self._cuda.runtime, self._stream.ptr)
        self._support = SupportKernels(self._cuda, self._stream, self._memory, device, binary)

    def limit_memory(self, most_bytes: int) -> None:
        """Do nothing, because GPU kernels do not allocate memory."""

    def load(
        self,
        binary: Path,
        entry: str,
        arguments: Sequence[Argument],
        launch: Launch | None,
        *,
        elsewhere: int | None = None,
    ) -> Kernel:
        if launch is None:
            raise LaunchError("a CUDA kernel needs [cuda.launch] in its family.toml")
        with cuda_errors():
            module = self._cuda.function.Module()
            module.load_file(str(binary))
            found = steps(entry, arguments, launch)
            most = dynamic_shared_bytes(found)
            functions = tuple(self._function(module, step.entry, most[step.entry]) for step in found)
        return Kernel(module=module, functions=functions, steps=found, arguments=tuple(arguments))

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        return DeviceBuffers(arguments, inputs, self._memory, self._support)

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        return [self.allocate(arguments, inputs) for _ in range(count)]

    def call(self, kernel: Kernel, buffers: Buffers, mode: CallMode = CallMode()) -> None:
        shared = [step.launch.shared_memory_bytes for step in kernel.steps]
        if own_bytes := max(map(sum, zip(shared, map(static_shared_bytes, kernel.functions), strict=True))):
            self._support.poison_shared(own_bytes)
        self._restore(buffers)
        self._bind(kernel, buffers)()
        self._wait()

    def timer(self, kernel: Kernel, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        if any(argument.restored for argument in kernel.arguments) and not once:
            return self._restored_timer(kernel, sets)
        calls = [self._restored_call(kernel, buffers) for buffers in sets]
        return GraphTimer(self._cuda, self._stream, calls, keep=(kernel, sets), once=once)

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        self._warm(calls)
        return GraphTimer(self._cuda, self._stream, calls, keep=calls)

    def anchor(self) -> Timer:
        return self._support.anchor()

    def floor(self) -> Timer:
        return self._support.empty()

    def copies(self, size: int, sets: int = 1) -> list[Timer]:
        """Return timers of copies by a kernel and of copies by the driver. See `SupportKernels.copies`."""
        return self._support.copies(size, sets)

    def settle(self) -> None:
        """Do nothing, because `residue` checks nothing on a GPU."""

    def residue(self, kernel: Any = None, *, brief: bool = False) -> str | None:
        return None

    def self_test(self) -> str | None:
        sent = np.random.default_rng(0).integers(0, 256, _SELF_TEST_BYTES, np.uint8)
        argument = Argument(name="bytes", role="input", dtype="uint8", shape=sent.shape)
        with cuda_errors():
            buffer = GuardedBuffer(argument, self._memory)
            buffer.write(sent)
        (found,), expected = self._support.checksums([(buffer.pointer, sent.nbytes)]), checksum(sent)
        return None if found == expected else f"a known-good kernel computed {found:#x} instead of {expected:#x}"

    def meter(self) -> EnergyMeter:
        """Return the meter of the GPU. See `workers.backends.energy.Metered`."""
        return NvmlMeter(self._device.uuid)

    def environment(self) -> Mapping[str, str]:
        load = {"load": f"{os.getloadavg()[0]:.2f}"}
        return {**self._device.software, **nvml.facts(self._device.uuid), **load}

    def _function(self, module: Any, entry: str, dynamic_bytes: int) -> int:
        """Return the handle of a function, after permitting it `dynamic_bytes` bytes of dynamic shared memory."""
        function = module.get_function(entry)
        if dynamic_bytes:
            attribute = self._cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._cuda.driver.funcSetAttribute(function.ptr, attribute, dynamic_bytes)
        return int(function.ptr)

    def _bind(self, kernel: Kernel, buffers: Buffers) -> BoundCall:
        pointers = dict(cast(DeviceBuffers, buffers).pointers)
        return BoundCall(kernel.functions, kernel.steps, kernel.arguments, pointers, stream=self._stream.ptr)

    def _restore(self, buffers: Buffers) -> None:
        for restore in cast(DeviceBuffers, buffers).restores:
            restore.enqueue(self._stream.ptr)

    def _restored_call(self, kernel: Kernel, buffers: Buffers) -> Callable[[], object]:
        """Return a function that restores arguments, if necessary, and then calls the kernel."""
        bound = self._bind(kernel, buffers)
        if not cast(DeviceBuffers, buffers).restores:
            return bound

        def call() -> None:
            self._restore(buffers)
            bound()

        return call

    def _restored_timer(self, kernel: Kernel, sets: Sequence[Buffers]) -> Timer:
        """Return a timer for a kernel whose arguments must be restored before each call.

        If only one set is given, sets that share its inputs are added, up to `_RING_SHARE` of the L2 cache, and up to
        `SHORT_CALLS` sets in total.
        """
        ring, last = list(sets), len(sets) - 1
        if len(sets) == 1:
            own_bytes = sum(argument.bytes for argument in kernel.arguments if argument.written)
            count = int(self.cold_bytes * _RING_SHARE) // max(own_bytes, 1)
            ring = [*sets[0].siblings(max(0, min(count, SHORT_CALLS) - 1)), *sets]
        return RestoredTimer(
            self._cuda,
            self._stream,
            [self._bind(kernel, buffers) for buffers in ring],
            [restore.enqueue for buffers in ring for restore in cast(DeviceBuffers, buffers).restores],
            last=last,
            keep=(kernel, ring),
        )

    def _wait(self) -> None:
        with cuda_errors():
            self._cuda.runtime.deviceSynchronize()

    def _warm(self, calls: Sequence[Callable[[], object]]) -> None:
        """Call each function once, and the first three twice, before a graph captures the calls.

        In their first calls, libraries choose kernels and allocate workspaces, which must not happen during a capture.
        """
        torch = sys.modules.get("torch")
        for call in [*calls[:3], *calls]:
            if torch is not None and torch.cuda.is_initialized():
                with self._stream, torch.cuda.stream(torch.cuda.ExternalStream(self._stream.ptr)):
                    call()
            else:
                with self._stream:
                    call()
        self._wait()


class CudaDriver:
    """Finds and opens GPUs. See `workers.backends.Driver`."""

    kind: DeviceKind = "cuda"
    baselines = "cuda_baselines"
    limits_address_space = False
    modules = ("cupy", __name__)

    def discover(self, folder: Path) -> list[Device]:
        process: CopyProcess | None = None

        def surveyed_now() -> tuple[list[Device], bool]:
            nonlocal process
            if driver_installed():  # the process loads its modules while the GPUs are listed
                process = opened.enter_context(CopyProcess(folder))
            return self._surveyed()

        with ExitStack() as opened:
            try:
                compiler = self.compiler().version
            except NoNvrtcError:
                found, _ = self._surveyed()
            else:
                found = kept_survey(folder, compiler, surveyed_now)
            return with_measured_copies(found, folder, process)

    def _surveyed(self) -> tuple[list[Device], bool]:
        """Return the usable GPUs, and True unless some GPUs are unusable or cannot be listed."""
        found, obstacle = self.look()
        if obstacle and find_spec("cupy"):
            log().info("a GPU cannot be used", reason=obstacle)
        return found, obstacle is None

    def look(self) -> tuple[list[Device], str | None]:
        """Return the usable GPUs, and the reason why other GPUs are unusable.

        The reason is None if all GPUs are usable. It is also given if no GPU is found, for example because CuPy, the
        driver or NVRTC is missing.
        """
        if find_spec("cupy") is None:
            return [], "CuPy is not installed; install kernel-evo with the extra `cuda12` or `cuda13`"
        if not driver_installed():
            return [], NO_DRIVER
        try:
            toolkit = self.compiler().toolkit
        except NoNvrtcError as error:
            return [], str(error)
        report = surveyed(toolkit)
        return [_device(each, f"NVRTC {toolkit[0]}.{toolkit[1]}") for each in report["gpus"]], report["obstacle"]

    def compiler(self) -> CudaCompiler:
        return self._compiler

    @cached_property
    def _compiler(self) -> CudaCompiler:
        return CudaCompiler()

    def sanitizer(self) -> CudaSanitizer:
        return CudaSanitizer.here()

    def profiler(self) -> NcuProfiler:
        return NcuProfiler.here()

    def choose(self, device: Device) -> None:
        use_gpu(index_of(device.uuid))

    def open(self, device: Device, objective: Objective, folder: Path) -> CudaSession:
        return CudaSession(device, folder, self.compiler())


def _meter_name(uuid: str) -> str:
    try:
        return NvmlMeter(uuid).name
    except NoMeterError as error:
        return without_meter(str(error))


def _device(gpu: Mapping[str, Any], compiler: str) -> Device:
    attributes = gpu["attributes"]
    return Device(
        kind="cuda",
        model=gpu["name"],
        architecture=f"sm_{capability(attributes)}",
        uuid=gpu["uuid"],
        limits=limits(attributes),
        ceilings=ceilings(attributes),
        software={
            **gpu["software"],
            "cuda": compiler.partition(" ")[2],
            "compiler": compiler,
            SANDBOX: sandbox_here() or "none",
            ENERGY: _meter_name(gpu["uuid"]),
        },
        memory_bytes=gpu["memory_bytes"],
    )


DRIVER = CudaDriver()
