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
"""Bytes that an address must be a multiple of."""

PLAIN_SHARED_BYTES = 48 << 10
MAX_DYNAMIC_SHARED = 8
"""``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES``."""

KEPT_MAPS = 256
"""Tensor maps kept by address; a program's buffers are few."""


_LINUX = platform.system() == "Linux"
_DEFAULT_STATE = ctypes.c_void_p(-1)
"""``FE_DFL_ENV`` of the C libraries of Linux."""


class Unfit(RuntimeError):
    """This machine, or this tensor, is not what the kernel was built for."""


class Kernel:
    """One kernel for the one problem it was compiled for.

    Calls on several streams, or by several threads, take turns where the kernel has workspaces, which they share.
    """

    def __init__(self, folder: Path) -> None:
        described = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self.arguments: list[dict[str, Any]] = described["arguments"]
        self.inputs = [each for each in self.arguments if each["role"] == "input"]
        self.outputs = [each for each in self.arguments if each["role"] == "output"]
        self.scalars = {each["name"] for each in self.arguments if each["role"] == "scalar"}
        self._results = [(tuple(each["shape"]), torch_dtype(each["dtype"])) for each in self.outputs]
        self.on_gpu = "launch" in described
        self._place: _OnCpu | _OnGpu = _OnGpu(folder, described) if self.on_gpu else _OnCpu(folder, described)
        least = GPU_ALIGNMENT if self.on_gpu else CPU_ALIGNMENT
        self.alignments = [max(least, int(each.get("alignment", 1))) for each in self.inputs]

    def check(self, device: torch.device) -> None:
        """Raises:
        Unfit: the device is not one that the kernel was built for.
        """
        self._place.check(device)

    def __call__(self, inputs: Sequence[torch.Tensor], scalars: Mapping[str, float]) -> list[torch.Tensor]:
        """Launch on contiguous, aligned inputs in the order of the arguments.

        Args:
            scalars: values that replace those the kernel was measured with, by the argument's name.

        Returns:
            The outputs in the order of the arguments.
        """
        device = inputs[0].device
        outputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in self._results]
        self._place.launch(iter(inputs), iter(outputs), scalars, device)
        return outputs


class _OnCpu:
    def __init__(self, folder: Path, described: Mapping[str, Any]) -> None:
        _check_cpu(described["architecture"])
        self._arguments = described["arguments"]
        control = _module(folder / "float_control.py")
        with control.preserved():
            self._function = ctypes.CDLL(str(folder / described["library"]))[described["entry"]]
        self._function.restype = None
        types: list[Any] = [
            SCALARS[each["dtype"]] if each["role"] == "scalar" else ctypes.c_void_p for each in self._arguments
        ]
        self._function.argtypes = types
        self._state = _FloatState()
        self._workspaces = {
            each["name"]: torch.empty(each["shape"], dtype=torch_dtype(each["stored"]))
            for each in self._arguments
            if each["role"] == "workspace"
        }
        self._turn = threading.Lock() if self._workspaces else None

    def check(self, device: torch.device) -> None:
        if device.type != "cpu":
            raise Unfit(f"built for a CPU, not for {device}")

    def launch(self, inputs: Any, outputs: Any, scalars: Mapping[str, float], _device: torch.device) -> None:
        passed: list[Any] = []
        for each in self._arguments:
            role = each["role"]
            if role == "input":
                passed.append(next(inputs).data_ptr())
            elif role == "output":
                passed.append(next(outputs).data_ptr())
            elif role == "scalar":
                passed.append(scalars.get(each["name"], each["value"]))
            else:
                passed.append(self._workspaces[each["name"]].data_ptr())
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
        self._functions: dict[int, Any] = {}
        self._fit: dict[int, None] = {}
        self._workspaces: dict[int, dict[str, torch.Tensor]] = {}
        self._maps: dict[tuple[str, int], Any] = {}
        self._turn = threading.Lock()
        self._last_stream: dict[int, Any] = {}

    def check(self, device: torch.device) -> None:
        if device.type != "cuda":
            raise Unfit(f"built for a GPU, not for {device}")
        index = device.index or 0
        if index not in self._fit:
            check_gpu(self._built_for, torch.cuda.get_device_capability(index))
            self._fit[index] = None

    def launch(self, inputs: Any, outputs: Any, scalars: Mapping[str, float], device: torch.device) -> None:
        if torch.cuda.current_device() != device.index:
            with torch.cuda.device(device):
                return self.launch(inputs, outputs, scalars, device)
        stream = torch.cuda.current_stream(device)
        with self._turn:
            function = self._functions.get(device.index) or self._load(device)
            workspaces = self._workspaces[device.index]
            if workspaces:
                self._wait(device, stream)
            addresses: dict[str, int] = {}
            held: list[Any] = []
            for each in self._arguments:
                role = each["role"]
                if role == "scalar":
                    held.append(SCALARS[each["dtype"]](scalars.get(each["name"], each["value"])))
                    continue
                tensor = next(inputs) if role == "input" else next(outputs) if role == "output" else None
                address = workspaces[each["name"]].data_ptr() if tensor is None else tensor.data_ptr()
                addresses[each["name"]] = address
                held.append(ctypes.c_uint64(address))
            held += [self._map(each, addresses[each["of"]]) for each in self._launch["tensor_maps"]]
            pointers = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
            sizes = [*_three(self._launch["grid"]), *_three(self._launch["block"])]
            shared = self._launch["shared_memory_bytes"]
            _driver("cuLaunchKernel", function, *sizes, shared, ctypes.c_void_p(stream.cuda_stream), pointers, None)
        return None

    def _load(self, device: torch.device) -> Any:
        """Load the binary into the device's context, which PyTorch has made current."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        _driver("cuModuleLoadData", ctypes.byref(module), self._image)
        _driver("cuModuleGetFunction", ctypes.byref(function), module, self._entry.encode())
        if self._launch["shared_memory_bytes"] > PLAIN_SHARED_BYTES:
            _driver("cuFuncSetAttribute", function, MAX_DYNAMIC_SHARED, self._launch["shared_memory_bytes"])
        self._workspaces[device.index] = {
            each["name"]: torch.empty(each["shape"], dtype=torch_dtype(each["stored"]), device=device)
            for each in self._arguments
            if each["role"] == "workspace"
        }
        self._functions[device.index] = function
        return function

    def _wait(self, device: torch.device, stream: Any) -> None:
        """Order launches of several streams, which share workspaces; a captured launch runs when it is replayed."""
        if torch.cuda.is_current_stream_capturing():
            return
        last = self._last_stream.get(device.index)
        if last is not None and last.cuda_stream != stream.cuda_stream:
            stream.wait_stream(last)
        self._last_stream[device.index] = stream

    def _map(self, each: Mapping[str, Any], address: int) -> Any:
        key = (json.dumps(each, sort_keys=True), address)
        if key not in self._maps:
            if len(self._maps) >= KEPT_MAPS:
                self._maps.clear()
            assert self._encode is not None
            self._maps[key] = self._encode(address, **each)
        return self._maps[key]


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
    """A cubin runs on GPUs of its own major version and at least its minor one; one for sm_90a on sm_90 alone.

    Raises:
        Unfit: names both.
    """
    number = built_for.removeprefix("sm_")
    exact = not number.isdigit()
    major, minor = divmod(int(number.rstrip("af")), 10)
    if capability[0] != major or capability[1] < minor or (exact and capability[1] != minor):
        raise Unfit(f"built for {built_for}, this GPU is sm_{capability[0]}{capability[1]}")


def _check_cpu(built_for: str) -> None:
    """Raises:
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
    status = _LIBRARY[name](*arguments)
    if status:
        raise RuntimeError(f"{name} failed with error {status} of the CUDA driver")


_LIBRARY: Any = None


def _module(path: Path) -> Any:
    """Load a file next to a kernel by its path, since every kernel's folder has one of this name."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
