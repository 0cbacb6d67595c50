"""Loads a kernel and launches it on tensors: a C function on a CPU, a CUDA kernel through the driver."""

import ctypes
import importlib.util
import json
import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

SCALARS = {"int32": ctypes.c_int32, "int64": ctypes.c_int64, "float32": ctypes.c_float, "float64": ctypes.c_double}
CPU_ALIGNMENT, GPU_ALIGNMENT = 64, 16
"""Alignment of addresses in bytes."""

PLAIN_SHARED_BYTES = 48 << 10
MAX_DYNAMIC_SHARED = 8
"""``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``."""

KEPT_MAPS = 256
"""Number of tensor maps that are cached by address; a program has few buffers."""


_LINUX = platform.system() == "Linux"
_DEFAULT_STATE = ctypes.c_void_p(-1)
"""``FE_DFL_ENV`` of the C libraries of Linux."""


class Unfit(RuntimeError):
    """The kernel was not built for this machine or this tensor."""


Result = tuple[tuple[int, ...], tuple[int, ...] | None, torch.dtype]
"""Shape, strides (None: contiguous) and dtype of an output."""


class Kernel:
    """One kernel for the problem for which it was compiled.

    Calls on several streams or by several threads wait for each other if they share workspaces.

    Attributes:
        arguments: descriptions in call order; `inputs` and `outputs` are the arguments of these roles, `scalars` the
            names of scalars.
        results: the outputs as the kernel writes them.
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
        least = GPU_ALIGNMENT if self.on_gpu else CPU_ALIGNMENT
        self.alignments = [max(least, int(each.get("alignment", 1))) for each in self.inputs]

    def check(self, device: torch.device) -> None:
        """Check that the kernel runs on a device.

        Raises:
            Unfit: the kernel was not built for this device.
        """
        self._place.check(device)

    def launch(
        self,
        addresses: Sequence[int],
        scalars: Mapping[str, float],
        device: torch.device,
        results: Sequence[Result] | None = None,
    ) -> list[torch.Tensor]:
        """Launch on inputs of the kernel's layout, on PyTorch's current stream of the device.

        Args:
            addresses: addresses of the inputs in the order of the arguments, aligned as `alignments` requires.
            scalars: values that replace those of the measurement, by the argument's name.
            results: shapes of the outputs as the caller gets them; by default as the kernel writes them.

        Returns:
            The outputs in the order of the arguments.
        """
        outputs = [
            torch.empty(shape, dtype=dtype, device=device)
            if strides is None
            else torch.empty_strided(shape, strides, dtype=dtype, device=device)
            for shape, strides, dtype in (self.results if results is None else results)
        ]
        self._place.launch([*addresses, *(each.data_ptr() for each in outputs)], scalars, device)
        return outputs


def _refuse_unsupported(described: Mapping[str, Any]) -> None:
    """Refuse a kernel with unsupported features.

    Raises:
        Unfit: the kernel needs a feature that this package lacks.
    """
    if described.get("launch", {}).get("further"):
        raise Unfit("a kernel of several launches")
    if any("init" in each or each["role"] == "inout" for each in described["arguments"]):
        raise Unfit("a kernel with initial values, or arguments that it changes")


def _order(arguments: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the places of the inputs, then of the outputs, among the arguments."""
    places = {role: [at for at, each in enumerate(arguments) if each["role"] == role] for role in ("input", "output")}
    return [*places["input"], *places["output"]]


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
        self._turn = threading.Lock() if self._workspaces else None
        self._places = _order(arguments)
        self._scalars = {each["name"]: at for at, each in enumerate(arguments) if each["role"] == "scalar"}
        workspaces = iter(self._workspaces)
        self._template = [
            each["value"]
            if each["role"] == "scalar"
            else next(workspaces).data_ptr()
            if each["role"] == "workspace"
            else None
            for each in arguments
        ]

    def check(self, device: torch.device) -> None:
        if device.type != "cpu":
            raise Unfit(f"built for a CPU, not for {device}")

    def launch(self, addresses: Sequence[int], scalars: Mapping[str, float], _device: torch.device) -> None:
        passed = self._template.copy()
        for place, address in zip(self._places, addresses, strict=True):
            passed[place] = address
        for name, value in scalars.items():
            passed[self._scalars[name]] = value
        if self._turn is None:
            self._state.run(self._function, passed)
        else:
            with self._turn:
                self._state.run(self._function, passed)


class _OnGpu:
    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        self._arguments, self._launch = described["arguments"], described["launch"]
        self._entry, self._image = described["entry"], (folder / described["binary"]).read_bytes()
        self._built_for = described["architecture"]
        maps = self._launch["tensor_maps"]
        self._encode = _module(folder / "tensor_map.py").encode if maps else None
        self._loaded: dict[int, _Loaded] = {}
        self._fit: set[int] = set()
        self._turn = threading.Lock()

    def check(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise Unfit(f"built for a GPU, not for {device}")
        index = device.index or 0
        if index not in self._fit:
            check_gpu(self._built_for, torch.cuda.get_device_capability(index))
            self._fit.add(index)

    def launch(self, addresses: Sequence[int], scalars: Mapping[str, float], device: torch.device) -> None:
        if torch.cuda.current_device() != device.index:
            with torch.cuda.device(device):
                return self.launch(addresses, scalars, device)
        stream = _raw_stream(device)
        with self._turn:
            loaded = self._loaded.get(device.index)
            if loaded is None:
                loaded = self._loaded[device.index] = self._load(device)
            loaded.launch(addresses, scalars, stream)
        return None

    def _load(self, device: torch.device) -> "_Loaded":
        """Load the binary into the device's context, which PyTorch has made current."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _driver("cuModuleLoadData", ctypes.byref(module), self._image)
        _driver("cuModuleGetFunction", ctypes.byref(function), module, self._entry.encode())
        if self._launch["shared_memory_bytes"] > PLAIN_SHARED_BYTES:
            _driver("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, self._launch["shared_memory_bytes"])
        return _Loaded(function, self._arguments, self._launch, encode=self._encode, device=device)


class _Loaded:
    """A kernel on one device, with parameters in memory that every launch reuses: the driver copies them.

    Calls must not overlap.
    """

    def __init__(
        self,
        function: Any,
        arguments: Sequence[Mapping[str, Any]],
        launch: Mapping[str, Any],
        *,
        encode: Callable[..., Any] | None,
        device: torch.device,
    ) -> None:
        self._device, self._encode, self._maps = device, encode, launch["tensor_maps"]
        self._held = [_parameter(each) for each in arguments]
        self._names = {each["name"]: at for at, each in enumerate(arguments)}
        self._written = [self._held[at] for at in _order(arguments)]
        self._workspaces = {
            each["name"]: torch.empty(each["shape"], dtype=torch_dtype(each["stored"]), device=device)
            for each in arguments
            if each["role"] == "workspace"
        }
        for name, tensor in self._workspaces.items():
            self._held[self._names[name]].value = tensor.data_ptr()
        count = len(self._held) + len(self._maps)
        self._pointers = (ctypes.c_void_p * count)(*map(ctypes.addressof, self._held))
        self._encoded: dict[tuple[int, ...], tuple[Any, ...]] = {}
        sizes = [ctypes.c_uint(each) for each in (*_three(launch["grid"]), *_three(launch["block"]))]
        self._before = (function, *sizes, ctypes.c_uint(launch["shared_memory_bytes"]))
        self._changed = {each["name"]: each["value"] for each in arguments if each["role"] == "scalar"}
        self._last_stream: int | None = None

    def launch(self, addresses: Sequence[int], scalars: Mapping[str, float], stream: int) -> None:
        if self._workspaces:
            self._wait(stream)
        for parameter, address in zip(self._written, addresses, strict=True):
            parameter.value = address
        for name, value in scalars.items():
            if self._changed[name] != value:
                self._held[self._names[name]].value = self._changed[name] = value
        if self._maps:
            self._point_at_maps()
        _driver("cuLaunchKernel", *self._before, ctypes.c_void_p(stream), self._pointers, None)

    def _point_at_maps(self) -> None:
        """Encode the tensor maps of these addresses, or reuse those of an earlier launch."""
        addresses = tuple(self._held[self._names[each["of"]]].value for each in self._maps)
        encoded = self._encoded.get(addresses)
        if encoded is None:
            assert self._encode is not None
            if len(self._encoded) >= KEPT_MAPS:
                self._encoded.clear()
            encoded = tuple(self._encode(at, **each) for at, each in zip(addresses, self._maps, strict=True))
            self._encoded[addresses] = encoded
        for place, each in enumerate(encoded, start=len(self._held)):
            self._pointers[place] = ctypes.addressof(each)

    def _wait(self, stream: int) -> None:
        """Order launches of several streams, because they share workspaces; a captured launch runs when it is
        replayed.
        """
        if torch.cuda.is_current_stream_capturing():
            return
        if self._last_stream is not None and self._last_stream != stream:
            last = torch.cuda.ExternalStream(self._last_stream, self._device)
            torch.cuda.current_stream(self._device).wait_stream(last)
        self._last_stream = stream


def _parameter(argument: Mapping[str, Any]) -> Any:
    """Return the memory of one parameter of a launch."""
    if argument["role"] == "scalar":
        return SCALARS[argument["dtype"]](argument["value"])
    return ctypes.c_uint64()


def _raw_stream(device: torch.device) -> int:
    """Return the handle of PyTorch's current stream."""
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # avoids an object with ten times the cost
    return int(quick(device.index) if quick is not None else torch.cuda.current_stream(device).cuda_stream)


class _FloatState:
    """Restores the thread's floating-point modes after a call, as the kernel may change them."""

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
                self._set(_DEFAULT_STATE)  # glibc restores the x87 precision by this alone
            self._set(buffer)


def torch_dtype(name: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, "float8_e4m3fn" if name == "float8_e4m3" else name)
    return found


def check_gpu(built_for: str, capability: tuple[int, int]) -> None:
    """Check that a GPU runs a cubin: same major version, at least its minor version; sm_90a only on sm_90.

    Raises:
        Unfit: names both.
    """
    number = built_for.removeprefix("sm_")
    exact = not number.isdigit()
    major, minor = divmod(int(number.rstrip("af")), 10)
    if capability[0] != major or capability[1] < minor or (exact and capability[1] != minor):
        raise Unfit(f"built for {built_for}, this GPU is sm_{capability[0]}{capability[1]}")


def _check_cpu(built_for: str) -> None:
    """Check the processor's instructions.

    Raises:
        Unfit: the processor lacks instructions that the kernel uses.
    """
    machine, _, feature = built_for.partition("+")
    if machine != platform.machine():
        raise Unfit(f"built for {built_for}, this machine is {platform.machine()}")
    flag = {"avx512": "avx512f", "avx2": "avx2", "avx": "avx"}.get(feature)
    if flag is None or platform.system() != "Linux":
        return
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    if flag not in flags.split():
        raise Unfit(f"built for {built_for}, this processor has no {feature}")


def _three(sizes: Sequence[int]) -> list[int]:
    return [*sizes, 1, 1][:3]


def _driver(name: str, *arguments: Any) -> None:
    """Call a function of the CUDA driver.

    Raises:
        RuntimeError: it failed; states the call and the driver's number.
    """
    global _LIBRARY  # noqa: PLW0603
    if _LIBRARY is None:
        _LIBRARY = ctypes.CDLL("nvcuda.dll" if platform.system() == "Windows" else "libcuda.so.1")
    status = getattr(_LIBRARY, name)(*arguments)
    if status:
        raise RuntimeError(f"{name} failed with error {status} of the CUDA driver")


_LIBRARY: Any = None


def _module(path: Path) -> Any:
    """Load a file next to a kernel by its path, because every kernel's folder has a file of this name."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
