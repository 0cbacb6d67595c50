"""Launches the exported CUDA kernel from Python. This module needs its folder, CuPy and a GPU that can run the kernel.

    from kernel import Kernel

    kernel = Kernel()
    outputs = kernel(**inputs)          # CuPy arrays by argument name

``python kernel.py`` lists the arguments and times the launch on random inputs. For PyTorch, see torch_op.py.
"""

import ctypes
import importlib.util
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

SCALARS = {
    "int32": np.int32,
    "int64": np.int64,
    "uint32": np.uint32,
    "uint64": np.uint64,
    "float32": np.float32,
    "float64": np.float64,
}
FINITE_CODES = 0x70
"""In every dtype that is stored as integers, bit patterns below this value are finite numbers."""

ADDRESSES = 16
"""Required alignment of an array's address in bytes, which is the size of the widest loads and copies."""


class Kernel:
    """The exported kernel, compiled for one problem, on the current device.

    Launches on several streams or by several threads run one after another, because they share workspaces and partial
    results. A stream must exist until a different stream has launched the kernel.

    Attributes:
        problem: the kernel's problem, e.g. ``{"B": 1, "S": 256}``. Other shapes need another export.
        arguments: name, role (input, output, inout, workspace, scalar), dtype and shape of each argument, in call
            order. `stored` is the dtype of the argument's arrays. If CuPy lacks the argument's dtype, the arrays
            contain its bit patterns.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        described = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        self.problem: dict[str, Any] = described["problem"]
        self.config: dict[str, Any] = described["config"]
        self.arguments: list[dict[str, Any]] = described["arguments"]
        self._launch: dict[str, Any] = described["launch"]
        self.device = cp.cuda.Device()
        _check_architecture(described["architecture"], self.device.compute_capability, described["build"])
        self._module = cp.RawModule(path=str(Path(folder).absolute() / described["binary"]))
        self._launches = [self._launch, *self._launch.get("further", [])]
        self._functions = [self._loaded(each, described["entry"]) for each in self._launches]
        mapped = any(each["tensor_maps"] for each in self._launches)
        self._map_parameters: Any = _map_parameters(Path(folder)) if mapped else None
        self._workspaces = {each["name"]: self._memory(each) for each in self.of("workspace")}
        self._lock = threading.Lock()
        self._last_stream: Any = None

    def __call__(self, **arrays: Any) -> dict[str, Any]:
        """Launch the kernel on CuPy's current stream.

        All inputs must be passed by name. Outputs may be passed; the kernel then writes to these arrays. An argument
        that is None counts as not passed. In-place arguments (inout) are passed like inputs, changed, and also
        returned. Outputs and workspaces that have an initial value are filled with this value before the launch. A
        passed output with a false `init_timed` is not filled; the caller must fill it.

        Returns:
            The outputs by name. They are ready when the stream has finished; the call does not wait.

        Raises:
            TypeError: an argument is missing or unknown, or is not a CuPy array of its dtype.
            ValueError: an array does not have the shape for which the kernel was compiled, is not C-contiguous, is on a
                different device, has an unaligned address, or contains a value beyond the argument's limits. Or an
                output shares memory with another array. To check limits, values are read back from the GPU; they are
                not checked while a graph is captured.
        """
        arrays = {name: array for name, array in arrays.items() if array is not None}
        inputs = {each["name"] for each in self.of("input", "inout")}
        outputs = {each["name"] for each in self.of("output", "inout")}
        for name in sorted(inputs - arrays.keys()) + sorted(arrays.keys() - inputs - outputs):
            problem = "is missing" if name in inputs else "is not an argument"
            if name in self.problem and name not in inputs:
                problem = f"is fixed: the kernel was compiled for {name}={self.problem[name]}, so omit it"
            raise TypeError(
                f"{name} {problem}; inputs: {', '.join(sorted(inputs))}; outputs: {', '.join(sorted(outputs))}"
            )
        held = {
            each["name"]: self._storage(each, arrays.get(each["name"])) for each in self.of("input", "output", "inout")
        }
        for name in sorted(outputs & arrays.keys()):
            _refuse_overlap(name, held)
        for each in self.of("output"):
            if "init" in each and not each["init_timed"] and each["name"] not in arrays:
                held[each["name"]].fill(each["init"])
        self.launch({name: array.data.ptr for name, array in held.items()})
        return {name: held[name] for name in sorted(outputs)}

    def launch(self, addresses: Mapping[str, int]) -> None:
        """Launch the kernel on CuPy's current stream, without checks.

        Args:
            addresses: device addresses of all inputs and outputs, by name. Outputs whose `init_timed` is false must
                contain their initial value.
        """
        passed = [self._parameters(each, addresses) for each in self._launches]
        with self._lock:
            self._wait_for_the_last_stream()
            self._fill(addresses)
            for function, launch, parameters in zip(self._functions, self._launches, passed, strict=True):
                grid, block = tuple(launch["grid"]), tuple(launch["block"])
                function(grid, block, parameters, shared_mem=launch["shared_memory_bytes"])

    def _loaded(self, launch: dict[str, Any], entry: str) -> Any:
        function = self._module.get_function(launch.get("entry") or entry)
        same = [each for each in self._launches if each.get("entry") == launch.get("entry")]
        # required if dynamic and static arrays exceed 48 KiB
        if most := max(each["shared_memory_bytes"] for each in same):
            function.max_dynamic_shared_size_bytes = most
        return function

    def _parameters(self, launch: dict[str, Any], addresses: Mapping[str, int]) -> tuple[Any, ...]:
        by_name = {each["name"]: each for each in self.arguments}
        arguments = [by_name[name] for name in launch["arguments"]] if launch.get("entry") else self.arguments
        passed = [self._passed(each, addresses) for each in arguments]
        at = len(passed) if launch["maps_at"] is None else launch["maps_at"]
        passed[at:at] = [value for each in launch["tensor_maps"] for value in self._mapped(each, addresses)]
        return tuple(passed)

    def _fill(self, addresses: Mapping[str, int]) -> None:
        """Fill workspaces, and outputs with a true `init_timed`, with their initial values on the current stream."""
        for each in self.arguments:
            if "init" in each and (each["init_timed"] or each["role"] == "workspace"):
                self._at(self._address(each["name"], addresses), each).fill(each["init"])

    def _at(self, address: int, each: dict[str, Any]) -> Any:
        """Return the device memory at an address as an array with an argument's shape and dtype."""
        dtype = np.dtype(each["stored"])
        size = int(np.prod(each["shape"], dtype=np.int64)) * dtype.itemsize
        memory = cp.cuda.UnownedMemory(address, size, None, self.device.id)
        return cp.ndarray(tuple(each["shape"]), dtype, cp.cuda.MemoryPointer(memory, 0))

    def _wait_for_the_last_stream(self) -> None:
        """Make the current stream wait for the stream of the last launch. Do nothing during CUDA graph capture."""
        here = cp.cuda.get_current_stream()
        if here.is_capturing():
            return
        if self._last_stream is not None and self._last_stream.ptr != here.ptr:
            here.wait_event(self._last_stream.record(cp.cuda.Event(disable_timing=True)))
        self._last_stream = here

    def empty(self, name: str) -> Any:
        """Return a new, uninitialised array for an argument."""
        each = next(each for each in self.arguments if each["name"] == name)
        return cp.empty(tuple(each["shape"]), dtype=each["stored"])

    def of(self, *roles: str) -> list[dict[str, Any]]:
        """Return the arguments with one of these roles, in call order."""
        return [each for each in self.arguments if each["role"] in roles]

    def _memory(self, each: dict[str, Any]) -> Any:
        return cp.empty(tuple(each["shape"]), dtype=each["stored"])

    def _storage(self, each: dict[str, Any], given: Any) -> Any:
        if given is None:
            return self._memory(each)
        name, shape = each["name"], tuple(each["shape"])
        if not isinstance(given, cp.ndarray) or given.dtype != np.dtype(each["stored"]):
            found = f"one of {given.dtype}" if isinstance(given, cp.ndarray) else type(given).__name__
            raise TypeError(f"{name} must be a CuPy array of {each['stored']}, not {found}")
        if given.shape != shape:
            raise ValueError(f"{name} must have shape {shape}, not {given.shape}")
        if not given.flags.c_contiguous:
            raise ValueError(f"{name} must be C-contiguous; pass cupy.ascontiguousarray({name})")
        if given.device.id != self.device.id:
            raise ValueError(f"{name} must be on the kernel's device {self.device.id}, not on device {given.device.id}")
        if given.data.ptr % ADDRESSES:
            raise ValueError(f"{name} is not aligned to {ADDRESSES} bytes; pass {name}.copy()")
        if ("min" in each or "max" in each) and not cp.cuda.get_current_stream().is_capturing():
            _refuse_beyond(each, int(given.min()), int(given.max()))
        return given

    def _passed(self, each: dict[str, Any], addresses: Mapping[str, int]) -> Any:
        if each["role"] == "scalar":
            return SCALARS[each["dtype"]](each["value"])
        return np.uint64(self._address(each["name"], addresses))

    def _mapped(self, each: dict[str, Any], addresses: Mapping[str, int]) -> list[Any]:
        """Return a tensor map's parameters as NumPy arrays of one element each, because CuPy passes these by value."""
        parameters = self._map_parameters(self._address(each["of"], addresses), **each)
        return [np.frombuffer(value, dtype=f"V{ctypes.sizeof(value)}") for value in parameters]

    def _address(self, name: str, addresses: Mapping[str, int]) -> int:
        return addresses[name] if name in addresses else self._workspaces[name].data.ptr


def _map_parameters(folder: Path) -> Any:
    """Return the function `parameters` of ``tensor_map.py`` in this folder."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_tensor_map", folder / "tensor_map.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.parameters


def _refuse_overlap(name: str, held: Mapping[str, Any]) -> None:
    """Raise ValueError if an output overlaps another array, because outputs are written while inputs are read."""
    begin, end = held[name].data.ptr, held[name].data.ptr + held[name].nbytes
    for other, array in held.items():
        if other != name and begin < array.data.ptr + array.nbytes and array.data.ptr < end:
            raise ValueError(f"{name} overlaps {other} in memory; pass a separate array, or omit {name}")


def _refuse_beyond(each: dict[str, Any], least: int, most: int) -> None:
    """Raise ValueError if an argument's smallest or largest value is outside its limits (e.g. lengths of a cache)."""
    low, high = each.get("min", least), each.get("max", most)
    if least < low or most > high:
        wrong = least if least < low else most
        raise ValueError(f"{each['name']} contains {wrong}, but its values must be from {low} to {high}")


def _check_architecture(built_for: str, capability: str, build: str) -> None:
    """Raise RuntimeError if a GPU cannot run a cubin.

    The major versions of the GPU and the cubin must be equal, and the GPU's minor version must not be lower. A cubin
    for sm_90a runs only on sm_90.

    Args:
        build: command that compiles the source again, for the error message.
    """
    number = built_for.removeprefix("sm_")
    exact = not number.isdigit()
    major, minor = divmod(int(number.rstrip("af")), 10)
    here_major, here_minor = divmod(int(capability), 10)
    if here_major != major or here_minor < minor or (exact and here_minor != minor):
        raise RuntimeError(
            f"kernel.cubin is built for {built_for}, but this GPU is sm_{capability}; build it again: {build}"
        )


def _random(each: dict[str, Any], rng: np.random.Generator) -> Any:
    if each["stored"] == each["dtype"] and each["dtype"].startswith("float"):
        return rng.standard_normal(each["shape"])
    most = 1 if each["dtype"] == "bool" else FINITE_CODES - 1
    return rng.integers(each.get("min", 0), each.get("max", most) + 1, each["shape"])


def main(repeats: int = 50) -> None:
    """Print the arguments, and the time of a launch on random inputs."""
    kernel = Kernel()
    arrays = {each["name"]: kernel.empty(each["name"]) for each in kernel.of("input", "output", "inout")}
    rng, wide = np.random.default_rng(0), max(len(each["name"]) for each in kernel.arguments)
    for each in kernel.arguments:
        print(f"{each['role']:<9} {each['name']:<{wide}} {each['dtype']:<13} {each['shape'] or each['value']}")
        if each["role"] in ("input", "inout"):
            arrays[each["name"]][...] = cp.asarray(_random(each, rng)).astype(each["stored"])
    times_us = []
    for _ in range(repeats):
        begun, ended = cp.cuda.Event(), cp.cuda.Event()
        begun.record()
        kernel(**arrays)
        ended.record()
        ended.synchronize()
        times_us.append(1e3 * cp.cuda.get_elapsed_time(begun, ended))
    data = "one set of random inputs (outputs are not checked)"
    print(f"median of {repeats} launches on {data}: {np.median(times_us):.1f} µs, including the overhead of Python")


if __name__ == "__main__":
    main()
