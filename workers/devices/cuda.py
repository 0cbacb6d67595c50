"""NVIDIA GPUs as devices. The only module of ours that imports CuPy, and only where a GPU is opened.

Run as a program it prints what GPUs there are as JSON: discovery happens in a process of its own, because the daemon
must never hold a CUDA context.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from evo.device import Ceilings, Device, DeviceKind
from evo.gpu import capability, ceilings, limits
from evo.objective import Objective
from evo.outcome import CompileFailed
from workers.cache import Cache, cache_key
from workers.compile import Launch, Unit
from workers.compile.nvrtc import NoNvrtcError, NvrtcCompiler
from workers.devices import Buffers, DeviceUnfitError, LaunchError, Timer, nvml
from workers.devices.cuda_buffers import MOST_BUFFERS, DeviceBuffers, GuardedBuffer, Span
from workers.devices.cuda_copy import with_measured_copy
from workers.devices.cuda_graph import GraphTimer
from workers.devices.cuda_launch import BoundKernel, cuda_errors, driver_installed, static_shared_bytes
from workers.devices.cuda_limits import ATTRIBUTES
from workers.distance import Distance
from workers.kernel import Argument
from workers.log import log
from workers.profilers.ncu import NcuProfiler
from workers.sanitizers.cuda import CudaSanitizer

NO_DRIVER = "there is no NVIDIA driver here: install one, or run the worker on the GPU's machine"

_DEFAULT_SHARED_BYTES = 48 << 10
_SELF_TEST_BYTES = 1 << 20
_COPY_BYTES = 4 * 256 * 16
"""What a block of support.cu's `copy` moves: four 16-byte words a thread."""


class CudaUnusableError(DeviceUnfitError):
    """The GPU or its driver cannot be used; the message says why and the way out."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A loaded kernel; `module` keeps it loaded."""

    module: Any
    function: int
    launch: Launch
    arguments: tuple[Argument, ...]


class CudaSession:
    """A `workers.devices.Session` on one GPU.

    Raises:
        CudaUnusableError: it is not there any more, or the driver refuses it.
    """

    def __init__(self, device: Device, folder: Path, compiler: NvrtcCompiler) -> None:
        import cupy

        self._cuda: Any = cupy.cuda
        self._device = device
        self.cold_bytes = int(device.limits["l2_bytes"])
        try:
            with cuda_errors():
                cupy.cuda.Device(_index(device.uuid)).use()
                self._stream = cupy.cuda.Stream(non_blocking=True)
        except LaunchError as error:
            users = f"; it is in use by {', '.join(found)}" if (found := nvml.strangers(device.uuid)) else ""
            raise CudaUnusableError(f"{device.model} ({device.uuid}) cannot be opened: {error}{users}") from None
        self._support = self._load_support(compiler, folder)
        self._references: dict[int, tuple[NDArray[np.float64], GuardedBuffer]] = {}
        self._counters = GuardedBuffer(
            Argument(name="sum", role="output", dtype="uint64", shape=(MOST_BUFFERS,)), cupy.cuda.runtime
        )

    def load(self, binary: Path, entry: str, arguments: Sequence[Argument], launch: Launch | None) -> Kernel:
        if launch is None:
            raise LaunchError("a CUDA kernel needs [cuda.launch] in its family.toml")
        with cuda_errors():
            module = self._cuda.function.Module()
            module.load_file(str(binary))
            function = module.get_function(entry)
            if launch.shared_memory_bytes > _DEFAULT_SHARED_BYTES:
                attribute = self._cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._cuda.driver.funcSetAttribute(function.ptr, attribute, launch.shared_memory_bytes)
        return Kernel(module=module, function=function.ptr, launch=launch, arguments=tuple(arguments))

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        return DeviceBuffers(arguments, inputs, self._cuda.runtime, self)

    def call(self, kernel: Kernel, buffers: Buffers) -> None:
        self._poison_shared(kernel)
        self._bind(kernel, buffers)()
        self._wait()

    def timer(self, kernel: Kernel, sets: Sequence[Buffers]) -> Timer:
        return GraphTimer(
            self._cuda, self._stream, [self._bind(kernel, buffers) for buffers in sets], keep=(kernel, sets)
        )

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        self._warm(calls)
        return GraphTimer(self._cuda, self._stream, calls, keep=calls)

    def anchor(self) -> Timer:
        blocks = int(self._device.limits["sm_count"])
        return self._own_timer("anchor", blocks, 256, Argument(name="sum", role="output", dtype="uint64"))

    def floor(self) -> Timer:
        return self._own_timer("empty", 1, 32)

    def copies(self, size: int) -> list[Timer]:
        """Copies of `size` bytes, a multiple of 16, between buffers of their own: by a kernel and by the driver."""
        source, target = (Argument(name=name, role="output", dtype="uint8", shape=(size,)) for name in ("from", "to"))
        count = Argument(name="count", role="scalar", dtype="int64", value=size // 16)
        with cuda_errors():
            held = [GuardedBuffer(each, self._cuda.runtime) for each in (source, target)]
        pointers = {buffer.argument.name: buffer.pointer for buffer in held}
        by_kernel = self._own("copy", math.ceil(size / _COPY_BYTES), 256, source, target, count, **pointers)
        runtime = self._cuda.runtime

        def by_driver() -> None:
            kind = runtime.memcpyDeviceToDevice
            runtime.memcpyAsync(pointers["to"], pointers["from"], size, kind, self._stream.ptr)

        return [GraphTimer(self._cuda, self._stream, [call], keep=held) for call in (by_kernel, by_driver)]

    def settle(self) -> None:
        """Nothing runs beside it."""

    def residue(self) -> str | None:
        return None

    def self_test(self) -> str | None:
        sent = np.random.default_rng(0).integers(0, 256, _SELF_TEST_BYTES, np.uint8)
        argument = Argument(name="bytes", role="input", dtype="uint8", shape=sent.shape)
        with cuda_errors():
            buffer = GuardedBuffer(argument, self._cuda.runtime)
            buffer.write(sent)
        (found,), expected = self.checksums([(buffer.pointer, sent.nbytes)]), checksum(sent)
        return None if found == expected else f"a known kernel computed {found:#x} where {expected:#x} is right"

    def environment(self) -> Mapping[str, str]:
        return {**self._device.software, **nvml.facts(self._device.uuid)}

    def _bind(self, kernel: Kernel, buffers: Buffers) -> BoundKernel:
        pointers = cast(DeviceBuffers, buffers).pointers
        return BoundKernel(kernel.function, kernel.launch, kernel.arguments, dict(pointers), self._stream.ptr)

    def _poison_shared(self, kernel: Kernel) -> None:
        """Leave NaN in all shared memory, which keeps what the last block wrote: reading it unwritten then shows.

        Once in all there is, and once in blocks as large as the kernel's own, which are laid out as its own are.
        """
        own_bytes = kernel.launch.shared_memory_bytes + static_shared_bytes(kernel.function)
        if own_bytes == 0:
            return
        everywhere = int(self._device.limits["sm_count"]) * int(self._device.limits["max_blocks_per_sm"])
        for size in (int(self._device.limits["shared_memory_bytes"]), own_bytes):
            words = Argument(name="words", role="scalar", dtype="int32", value=size // 4)
            launch = Launch(grid=(everywhere, 1, 1), block=(256, 1, 1), shared_memory_bytes=size)
            BoundKernel(self._poisoner, launch, (words,), {}, self._stream.ptr)()

    @cached_property
    def _poisoner(self) -> int:
        with cuda_errors():
            function: int = self._support.get_function("poison_shared").ptr
            attribute = self._cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._cuda.driver.funcSetAttribute(function, attribute, int(self._device.limits["shared_memory_bytes"]))
        return function

    def _own(self, entry: str, blocks: int, threads: int, *arguments: Argument, **pointers: int) -> BoundKernel:
        launch = Launch(grid=(blocks, 1, 1), block=(threads, 1, 1))
        function = self._support.get_function(entry).ptr
        return BoundKernel(function, launch, arguments, pointers, self._stream.ptr)

    def _own_timer(self, entry: str, blocks: int, threads: int, *arguments: Argument) -> Timer:
        pointers = {argument.name: self._counters.pointer for argument in arguments}
        return GraphTimer(
            self._cuda, self._stream, [self._own(entry, blocks, threads, *arguments, **pointers)], keep=self
        )

    def checksums(self, spans: Sequence[Span]) -> list[int]:
        """One for each span of memory; all are asked for before any is waited for."""
        counters = self._counters
        counters.fill(0)
        self._wait()
        for place, (pointer, size) in enumerate(spans):
            data = Argument(name="bytes", role="input", dtype="uint8", shape=(size,))
            count = Argument(name="count", role="scalar", dtype="int64", value=size)
            blocks = int(self._device.limits["sm_count"]) * 8
            pointers = {"bytes": pointer, "sum": counters.pointer + 8 * place}
            self._own("checksum", blocks, 256, data, count, counters.argument, **pointers)()
        self._wait()
        with cuda_errors():
            return [int(each) for each in counters.read()[: len(spans)]]

    def distance(self, buffer: GuardedBuffer, reference: NDArray[np.float64]) -> Distance:
        """Of an output of one of the dtypes that support.cu knows."""
        argument, right = buffer.argument, self._reference(reference)
        names = [Argument(name=name, role="output", dtype="uint8") for name in ("values", "reference", "far")]
        count = Argument(name="count", role="scalar", dtype="int64", value=argument.elements)
        pointers = {"values": buffer.pointer, "reference": right.pointer, "far": self._counters.pointer}
        self._counters.fill(0)
        self._wait()
        blocks = int(self._device.limits["sm_count"]) * 8
        values, expected, far = names
        self._own(f"distance_{argument.dtype}", blocks, 256, values, expected, count, far, **pointers)()
        self._wait()
        with cuda_errors():
            found = self._counters.read()[:4]
        return Distance(
            elements=argument.elements,
            unwritten=int(found[0]),
            not_finite=int(found[1]),
            max_abs=float(found[2:3].view(np.float64)[0]),
            squares=float(found[3:4].view(np.float64)[0]),
        )

    def _reference(self, values: NDArray[np.float64]) -> GuardedBuffer:
        """On the device, copied once: the same few are compared with again and again."""
        if id(values) not in self._references:
            argument = Argument(name="reference", role="input", dtype="float64", shape=values.shape)
            with cuda_errors():
                buffer = GuardedBuffer(argument, self._cuda.runtime)
                buffer.write(values)
            self._references[id(values)] = values, buffer
        return self._references[id(values)][1]

    def _wait(self) -> None:
        with cuda_errors():
            self._cuda.runtime.deviceSynchronize()

    def _warm(self, calls: Sequence[Callable[[], object]]) -> None:
        """Libraries choose kernels and allocate workspaces on the first calls, which must not be captured."""
        torch = sys.modules.get("torch")
        for call in [*calls[:3], *calls]:
            if torch is not None and torch.cuda.is_initialized():
                with self._stream, torch.cuda.stream(torch.cuda.ExternalStream(self._stream.ptr)):
                    call()
            else:
                with self._stream:
                    call()
        self._wait()

    def _load_support(self, compiler: NvrtcCompiler, folder: Path) -> Any:
        source = files("workers.devices").joinpath("support.cu").read_text()
        cache, key = Cache(folder), cache_key("support", compiler.version, self._device.architecture, source)
        binary = cache.get(key)
        if binary is None:
            unit = Unit(source=source, architecture=self._device.architecture, entry="checksum")
            result = compiler.compile(unit, timeout_s=60)
            if isinstance(result, CompileFailed):
                raise CudaUnusableError(f"the support kernels do not compile: {result.log}")
            binary = result.binary
            cache.put(key, binary)
        with cuda_errors():
            module = self._cuda.function.Module()
            module.load(binary)
            return module


def checksum(values: NDArray[np.uint8]) -> int:
    """What `checksum` of support.cu computes, here on the host."""
    keys = np.arange(values.size, dtype=np.uint64) * np.uint64(256) + values + np.uint64(1)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int(np.sum(keys ^ (keys >> np.uint64(31)), dtype=np.uint64))


class CudaDriver:
    """Finds GPUs and opens them; see `workers.devices.Driver`."""

    kind: DeviceKind = "cuda"
    baselines = "cuda_baselines"
    limits_address_space = False

    def discover(self, folder: Path) -> list[Device]:
        found, obstacle = self.look()
        if obstacle and find_spec("cupy"):
            log().info("cuda.unusable", reason=obstacle)
        return [with_measured_copy(each, folder) for each in found]

    def look(self) -> tuple[list[Device], str | None]:
        """The GPUs here, and what keeps them from being used, if anything does."""
        if find_spec("cupy") is None:
            return [], "CuPy is not installed: install kernel-evo with the extra `cuda12` or `cuda13`"
        if not driver_installed():
            return [], NO_DRIVER
        try:
            toolkit = self.compiler().toolkit
        except NoNvrtcError as error:
            return [], str(error)
        command = [sys.executable, "-m", "workers.devices.cuda", str(toolkit[0]), str(toolkit[1])]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        except (OSError, subprocess.SubprocessError) as error:
            return [], f"looking for GPUs failed: {str(getattr(error, 'stderr', '') or error).strip()[-500:]}"
        report = json.loads(answer)
        return [_device(each, f"NVRTC {toolkit[0]}.{toolkit[1]}") for each in report["gpus"]], report["obstacle"]

    def compiler(self) -> NvrtcCompiler:
        return self._compiler

    @cached_property
    def _compiler(self) -> NvrtcCompiler:
        return NvrtcCompiler()

    def sanitizer(self) -> CudaSanitizer:
        return CudaSanitizer.here()

    def profiler(self) -> NcuProfiler:
        return NcuProfiler.here()

    def open(self, device: Device, objective: Objective, folder: Path) -> CudaSession:
        return CudaSession(device, folder, self.compiler())


def _device(gpu: Mapping[str, Any], compiler: str) -> Device:
    attributes = gpu["attributes"]
    rates = ceilings(attributes)
    return Device(
        kind="cuda",
        model=gpu["name"],
        architecture=f"sm_{capability(attributes)}",
        uuid=gpu["uuid"],
        limits=limits(attributes),
        ceilings=Ceilings(flops_per_s=rates.flops_per_s, bytes_per_s=rates.bytes_per_s, source="table"),
        software={**gpu["software"], "cuda": compiler.partition(" ")[2], "compiler": compiler},
        memory_bytes=gpu["memory_bytes"],
    )


def _uuid(index: int) -> str:
    import cupy

    text = bytes(cupy.cuda.runtime.getDeviceProperties(index)["uuid"])[:16].hex()
    return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _index(uuid: str) -> int:
    import cupy

    for index in range(cupy.cuda.runtime.getDeviceCount()):
        if _uuid(index) == uuid:
            return index
    raise CudaUnusableError(f"{uuid}: there is no such GPU here any more; restart the worker")


def survey(toolkit: tuple[int, int]) -> dict[str, Any]:
    """What the child of `CudaDriver.look` finds: ``gpus``, or the ``obstacle`` to using any."""
    import cupy

    runtime = cupy.cuda.runtime
    if obstacle := _obstacle(runtime, toolkit):
        return {"gpus": [], "obstacle": obstacle}
    gpus = [
        {
            "name": runtime.getDeviceProperties(index)["name"].decode(),
            "uuid": _uuid(index),
            "memory_bytes": runtime.getDeviceProperties(index)["totalGlobalMem"],
            "attributes": {name: runtime.deviceGetAttribute(number, index) for name, number in ATTRIBUTES.items()},
            "software": {"cuda_driver": _version(runtime.driverGetVersion()), "cupy": cupy.__version__},
        }
        for index in range(runtime.getDeviceCount())
    ]
    return {"gpus": gpus, "obstacle": None}


def _obstacle(runtime: Any, toolkit: tuple[int, int]) -> str | None:
    driver = runtime.driverGetVersion()
    if not driver:
        return NO_DRIVER
    if driver // 1000 < toolkit[0]:
        way_out = f"update the driver, or install kernel-evo with the extra `cuda{driver // 1000}`"
        return (
            f"the NVIDIA driver supports CUDA {_version(driver)} and the installed toolkit is "
            f"{toolkit[0]}.{toolkit[1]}: {way_out}"
        )
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return str(error)
    return None if count else "the NVIDIA driver finds no GPU"


def _version(number: int) -> str:
    """E.g. 12.2 for 12020."""
    return f"{number // 1000}.{number % 1000 // 10}"


DRIVER = CudaDriver()

if __name__ == "__main__":
    sys.stdout.write(json.dumps(survey((int(sys.argv[1]), int(sys.argv[2])))))
