"""Loads kernels and runs them on tensors: CPU kernels as C functions, GPU kernels with the CUDA driver."""

import ctypes
import importlib.util
import json
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch

SCALARS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
CPU_ALIGNMENT, GPU_ALIGNMENT = 64, 16
"""Minimum alignment of input addresses on a CPU and on a GPU, in bytes. A kernel may require more."""

MAX_DYNAMIC_SHARED = 8
"""Value of ``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`` in the CUDA driver API."""

KEPT_LAUNCHES = 256
"""Maximum number of cached launches of a kernel. They differ in scalar values and output shapes."""

KEPT_MAPS = 256
"""Maximum number of address combinations for which a kernel's encoded tensor maps are cached. A few suffice, because a
program reuses its buffers.
"""


_LINUX = platform.system() == "Linux"
_DEFAULT_STATE = ctypes.c_void_p(-1)
"""Value of ``FE_DFL_ENV``, the default floating-point environment, in the C libraries of Linux."""


class Unfit(RuntimeError):
    """Raised if a kernel was not built for a device, or needs a feature that this package lacks."""


Result = tuple[tuple[int, ...], tuple[int, ...] | None, torch.dtype]
"""Shape, strides (None if contiguous) and dtype of an output."""


class Kernel:
    """A kernel, compiled for one problem.

    If the kernel has workspaces, calls on several streams wait for each other, because all launches share the
    workspaces.

    Attributes:
        arguments: descriptions of all arguments in call order.
        inputs, outputs: descriptions of the input and of the output arguments.
        scalars: names of the scalar arguments.
        results: shape, strides and dtype of each output, as compiled into the kernel.
        on_gpu: True for a GPU kernel, False for a CPU kernel.
        alignments: required alignment of each input's address, in bytes.
    """

    def __init__(self, folder: Path) -> None:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        _refuse_unsupported(described)
        self.arguments: list[dict[str, Any]] = described["arguments"]
        self.inputs = [each for each in self.arguments if each["role"] == "input"]
        self.outputs = [each for each in self.arguments if each["role"] == "output"]
        self.scalars = {each["name"] for each in self.arguments if each["role"] == "scalar"}
        self.results: tuple[Result, ...] = tuple(
            (tuple(each["shape"]), None, torch_dtype(each["dtype"])) for each in self.outputs
        )
        self.on_gpu = "launch" in described
        self._place: _OnCpu | _OnGpu = _OnGpu(folder, described) if self.on_gpu else _OnCpu(folder, described)
        self._launches: dict[tuple[Any, ...], Launch] = {}
        least = GPU_ALIGNMENT if self.on_gpu else CPU_ALIGNMENT
        self.alignments = [max(least, int(each.get("alignment", 1))) for each in self.inputs]

    def check(self, device: torch.device) -> None:
        """Check that the kernel can run on a device.

        Raises:
            Unfit: the kernel was not built for this device.
        """
        self._place.check(device)

    def prepare(
        self, device: torch.device, scalars: Mapping[str, float], results: Sequence[Result] | None = None
    ) -> "Launch":
        """Return a reusable launch of the kernel on one device. Equal arguments give the same launch, which is cached.

        Args:
            scalars: values of scalar arguments by name. They replace the values used in the measurement.
            results: shape, strides and dtype of each output that the caller gets. By default, the outputs are
                contiguous and have the shapes for which the kernel was compiled.
        """
        wanted = self.results if results is None else tuple(results)
        terms = (device, tuple(scalars.items()), wanted)
        if terms not in self._launches:
            if len(self._launches) >= KEPT_LAUNCHES:
                self._launches.clear()
            templates = [_template(*each, device) for each in wanted]
            self._launches[terms] = Launch(templates, self._place.prepare(device, scalars))
        return self._launches[terms]


class Launch:
    """A kernel on one device, with fixed scalar values and output shapes.

    On a GPU, the kernel runs on PyTorch's current stream of the device. Calls by several threads wait for each other on
    a GPU, and on a CPU if the kernel has workspaces.
    """

    __slots__ = ("_start", "_templates")

    def __init__(self, templates: Sequence[torch.Tensor], start: Callable[[list[int]], None]) -> None:
        self._templates, self._start = templates, start

    def __call__(self, addresses: list[int]) -> list[torch.Tensor]:
        """Launch the kernel. Return the outputs in the order of the arguments.

        Args:
            addresses: addresses of the inputs in the order of the arguments, aligned as `Kernel.alignments` requires.
        """
        outputs = []
        for each in self._templates:
            output = _empty_like(each)
            outputs.append(output)
            addresses.append(output.data_ptr())
        self._start(addresses)
        return outputs


_empty_like = torch.empty_like


def _template(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Return a tensor without memory, from which `empty_like` allocates outputs.

    Such an allocation takes half the time of an allocation by shape.
    """
    if strides is None:
        found = torch.empty(shape, dtype=dtype, device=device)
    else:
        found = torch.empty_strided(shape, strides, dtype=dtype, device=device)
    found.untyped_storage().resize_(0)
    return found


def _refuse_unsupported(described: Mapping[str, Any]) -> None:
    """Raise Unfit if the kernel needs a feature that this package lacks."""
    if described.get("launch", {}).get("further"):
        raise Unfit("this package does not support kernels with several launches")
    if any("init" in each or each["role"] == "inout" for each in described["arguments"]):
        raise Unfit("this package does not support arguments that have initial values or are changed in place")


_PASSED = ("input", "output")
"""Roles of the arguments whose addresses a call passes, in this order."""


class _OnCpu:
    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        _check_cpu(described["architecture"])
        arguments = described["arguments"]
        control = _module(folder / "float_control.py")
        with control.preserved():
            self._function = ctypes.CDLL(str(folder / described["library"]))[described["entry"]]
        self._function.restype = None
        types: list[Any] = [
            SCALARS[each["dtype"]] if each["role"] == "scalar" else ctypes.c_void_p for each in arguments
        ]
        self._function.argtypes = types
        self._state = _FloatState()
        self._workspaces = [
            torch.empty(each["shape"], dtype=torch_dtype(each["stored"]))
            for each in arguments
            if each["role"] == "workspace"
        ]
        self._lock = threading.Lock() if self._workspaces else None
        self._scalars = {each["name"]: each["value"] for each in arguments if each["role"] == "scalar"}
        # positions of the arguments among addresses, scalars and workspaces
        names = [
            each["name"] for role in (*_PASSED, "scalar", "workspace") for each in arguments if each["role"] == role
        ]
        self._ordered = itemgetter(*(names.index(each["name"]) for each in arguments))

    def check(self, device: torch.device) -> None:
        if device.type != "cpu":
            raise Unfit(f"it is built for a CPU, not for {device}")

    def prepare(self, _device: torch.device, scalars: Mapping[str, float]) -> Callable[[list[int]], None]:
        """Return a function that runs the kernel, given the addresses of its inputs and outputs."""
        values = {**self._scalars, **scalars}
        constant = (*(values[name] for name in self._scalars), *(each.data_ptr() for each in self._workspaces))
        run, ordered, function, turn = self._state.run, self._ordered, self._function, self._lock

        def start(addresses: list[int]) -> None:
            addresses += constant
            if turn is None:
                run(function, ordered(addresses))
            else:
                with turn:
                    run(function, ordered(addresses))

        return start


class _OnGpu:
    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self._arguments, self._launch = described["arguments"], described["launch"]
        self._entry, self._image = described["entry"], (folder / described["binary"]).read_bytes()
        self._built_for = described["architecture"]
        maps = self._launch["tensor_maps"]
        self._map_parameters = _module(folder / "tensor_map.py").parameters if maps else None
        self._loaded: dict[int, _Loaded] = {}
        self._fit: set[int] = set()
        self._lock = threading.Lock()

    def check(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise Unfit(f"it is built for a GPU, not for {device}")
        index = device.index or 0
        if index not in self._fit:
            check_gpu(self._built_for, torch.cuda.get_device_capability(index))
            self._fit.add(index)

    def prepare(self, device: torch.device, scalars: Mapping[str, float]) -> Callable[[list[int]], None]:
        """Return a function that launches the kernel, given the addresses of its inputs and outputs."""
        with torch.cuda.device(device), self._lock:
            loaded = self._loaded.get(device.index)
            if loaded is None:
                loaded = self._loaded[device.index] = self._load(device)
            start = loaded.prepare(scalars)
        if torch.cuda.device_count() == 1:
            return start

        def start_there(addresses: list[int]) -> None:
            if torch.cuda.current_device() == device.index:
                start(addresses)
            else:
                with torch.cuda.device(device):
                    start(addresses)

        return start_there

    def _load(self, device: torch.device) -> "_Loaded":
        """Load the binary into the CUDA context that PyTorch created on the device."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _driver("cuModuleLoadData", ctypes.byref(module), self._image)
        _driver("cuModuleGetFunction", ctypes.byref(function), module, self._entry.encode())
        if self._launch["shared_memory_bytes"]:  # required if dynamic and static arrays exceed 48 KiB
            _driver("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, self._launch["shared_memory_bytes"])
        return _Loaded(function, self._arguments, self._launch, map_parameters=self._map_parameters, device=device)


class _Loaded:
    """A kernel loaded on one device. Threads launch it one after another, because launches share host memory."""

    def __init__(
        self,
        function: Any,
        arguments: Sequence[Mapping[str, Any]],
        launch: Mapping[str, Any],
        *,
        map_parameters: Callable[..., list[Any]] | None,
        device: torch.device,
    ) -> None:
        self._arguments, self._device, self._maps = arguments, device, launch["tensor_maps"]
        self._maps_at = len(arguments) if launch["maps_at"] is None else launch["maps_at"]
        self._map_parameters = map_parameters
        self._workspaces = {
            each["name"]: torch.empty(each["shape"], dtype=torch_dtype(each["stored"]), device=device)
            for each in arguments
            if each["role"] == "workspace"
        }
        self._sizes = (*_three(launch["grid"]), *_three(launch["block"]), launch["shared_memory_bytes"])
        self._function, self._lock = function, threading.Lock()
        self._encoded: dict[int | tuple[int, ...], tuple[list[Any], list[int]]] = {}
        self._last_stream: int | None = None

    def prepare(self, scalars: Mapping[str, float]) -> Callable[[list[int]], None]:
        """Return a function that launches the kernel with these scalars, given the addresses of inputs and outputs.

        All launches use the same host memory for parameters. This is safe because the driver copies the parameters
        before a launch returns.
        """
        passed = [each["name"] for role in _PASSED for each in self._arguments if each["role"] == role]
        workspaces = {name: tensor.data_ptr() for name, tensor in self._workspaces.items()}
        names, count = [*passed, *workspaces], len(passed)
        addresses = (ctypes.c_uint64 * len(names))(*([0] * count), *workspaces.values())
        values: dict[str, Any] = {
            each["name"]: SCALARS[each["dtype"]](scalars.get(each["name"], each["value"]))
            for each in self._arguments
            if each["role"] == "scalar"
        }
        word = ctypes.sizeof(ctypes.c_uint64)
        places = {name: ctypes.addressof(addresses) + word * place for place, name in enumerate(names)}
        places |= {name: ctypes.addressof(value) for name, value in values.items()}
        passed_at = [places[each["name"]] for each in self._arguments]
        end = self._maps_at + sum(_parameter_count(each) for each in self._maps)
        passed_at[self._maps_at : self._maps_at] = [0] * (end - self._maps_at)
        pointers = (ctypes.c_void_p * len(passed_at))(*passed_at)
        written, maps = slice(0, count), slice(self._maps_at, end)
        mapped = [names.index(each["of"]) for each in self._maps]
        read = itemgetter(*mapped) if mapped else None
        # ctypes passes 32-bit integers, and pointers that were converted before, faster than other objects
        launch = partial(_driver_function("cuLaunchKernel"), _pointer(self._function.value), *self._sizes)
        passed_pointers = ctypes.byref(pointers)
        index, turn = self._device.index, self._lock
        stream, handle = 0, _pointer(0)

        def start(given: list[int], _keep_alive: object = values) -> None:
            nonlocal stream, handle
            current = _raw_stream(index)
            with turn:
                if workspaces and current != self._last_stream:
                    self._wait(current)
                addresses[written] = given  # type: ignore[assignment]
                if read is not None:
                    pointers[maps] = self._encoded_maps(read(addresses))  # type: ignore[assignment]
                if current != stream:
                    stream, handle = current, _pointer(current)
                status = launch(handle, passed_pointers, None)
            if status:
                raise RuntimeError(_failed("cuLaunchKernel", status))

        return start

    def _encoded_maps(self, addresses: int | tuple[int, ...]) -> list[int]:
        """Return the host addresses of the parameters of all tensor maps. Results are cached.

        The parameters are each map and, if the kernel takes them, the shape and the strides of the map's array.

        Args:
            addresses: device address of each map's array; a single integer if there is only one map.
        """
        found = self._encoded.get(addresses)
        if found is None:
            assert self._map_parameters is not None
            if len(self._encoded) >= KEPT_MAPS:
                self._encoded.clear()
            each_address = addresses if isinstance(addresses, tuple) else (addresses,)
            both = zip(each_address, self._maps, strict=True)
            encoded = [value for at, each in both for value in self._map_parameters(at, **each)]
            found = self._encoded[addresses] = (encoded, [ctypes.addressof(each) for each in encoded])
        return found[1]

    def _wait(self, stream: int) -> None:
        """Make a stream wait for the stream of the last launch, because launches share workspaces.

        Do nothing during CUDA graph capture.
        """
        if torch.cuda.is_current_stream_capturing():
            return
        if self._last_stream is not None:
            last = torch.cuda.ExternalStream(self._last_stream, self._device)
            torch.cuda.current_stream(self._device).wait_stream(last)
        self._last_stream = stream


def _parameter_count(tensor_map: Mapping[str, Any]) -> int:
    return 1 + (2 * len(tensor_map["shape"]) if tensor_map["passes_shape"] else 0)


def _slow_raw_stream(index: int) -> int:
    return int(torch.cuda.current_stream(index).cuda_stream)


_raw_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _slow_raw_stream)
"""Returns the handle of PyTorch's current stream of a device. PyTorch's private function is faster because it creates
no object.
"""


class _FloatState:
    """Restores the thread's floating-point modes after a call, because the kernel may change them."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libm.so.6") if _LINUX else ctypes.CDLL(None)
        self._get, self._set = library.fegetenv, library.fesetenv
        self._local = threading.local()

    def run(self, function: Callable[..., object], passed: Sequence[Any]) -> None:
        buffer = getattr(self._local, "buffer", None)
        if buffer is None:
            buffer = self._local.buffer = ctypes.create_string_buffer(256)
        self._get(buffer)
        try:
            function(*passed)
        finally:
            if _LINUX:
                self._set(_DEFAULT_STATE)  # only this call makes glibc restore the x87 precision
            self._set(buffer)


def torch_dtype(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, "float8_e4m3fn" if name == "float8_e4m3" else name)
    return found


def check_gpu(built_for: str, capability: tuple[int, int]) -> None:
    """Check that a GPU can run a cubin.

    The major versions of the GPU and the cubin must be equal, and the GPU's minor version must not be lower. A cubin
    for sm_90a runs only on sm_90.

    Raises:
        Unfit: the GPU cannot run the cubin.
    """
    number = built_for.removeprefix("sm_")
    exact = not number.isdigit()
    major, minor = divmod(int(number.rstrip("af")), 10)
    if capability[0] != major or capability[1] < minor or (exact and capability[1] != minor):
        raise Unfit(f"it is built for {built_for}, but this GPU is sm_{capability[0]}{capability[1]}")


def _check_cpu(built_for: str) -> None:
    """Raise Unfit if the processor has a different architecture, or lacks instructions that the kernel uses.

    The instructions are checked only on Linux.
    """
    machine, _, feature = built_for.partition("+")
    if machine != platform.machine():
        raise Unfit(f"it is built for {built_for}, but this machine is {platform.machine()}")
    flag = {"avx512": "avx512f", "avx2": "avx2", "avx": "avx"}.get(feature)
    if flag is None or platform.system() != "Linux":
        return
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    if flag not in flags.split():
        raise Unfit(f"it is built for {built_for}, but this processor has no {feature}")


def _three(sizes: Sequence[int]) -> list[int]:
    return [*sizes, 1, 1][:3]


def _driver(name: str, *arguments: Any) -> None:
    """Call a function of the CUDA driver. Raise RuntimeError if it returns an error."""
    status = _driver_function(name)(*arguments)
    if status:
        raise RuntimeError(_failed(name, status))


_pointer: Callable[[int | None], Any] = ctypes.c_void_p.from_param
"""Converts an address to a pointer that can be passed to a C function."""


def _driver_function(name: str) -> Any:
    global _LIBRARY  # noqa: PLW0603
    if _LIBRARY is None:
        _LIBRARY = ctypes.CDLL("nvcuda.dll" if platform.system() == "Windows" else "libcuda.so.1")
    return getattr(_LIBRARY, name)


def _failed(name: str, status: int) -> str:
    return f"{name} failed with error {status} of the CUDA driver"


_LIBRARY: Any = None


def _module(path: Path) -> Any:
    """Import a Python file in a kernel's folder by its path, because all these folders have files of the same names."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
