"""Calls the exported kernel from Python. This module needs only its folder and NumPy.

    from kernel import Kernel

    kernel = Kernel()
    outputs = kernel(**inputs)          # NumPy arrays by argument name

``python kernel.py`` lists the arguments and times a call on random inputs.
"""

import ctypes
import importlib.util
import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

ALIGNMENT = 64
FINITE_CODES = 0x70
"""In every dtype that is stored as integers, bit patterns below this value are finite numbers."""

SCALARS = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float,
    "float64": ctypes.c_double,
}


class Kernel:
    """The exported function, compiled for one problem.

    Calls from several threads wait for each other, because the workspaces are allocated only once. Outputs that the
    caller does not pass are allocated for each call. The processor's floating-point modes are restored after a call.

    Attributes:
        problem: the kernel's problem, e.g. ``{"B": 1, "S": 256}``. Other shapes need another export.
        arguments: name, role (input, output, inout, workspace, scalar), dtype and shape of each argument, in call
            order. `stored` is the dtype of the argument's arrays. If NumPy lacks the argument's dtype, the arrays
            contain its bit patterns.
    """

    def __init__(self, folder: str | Path = Path(__file__).parent) -> None:
        described = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        self.problem: dict[str, Any] = described["problem"]
        self.config: dict[str, Any] = described["config"]
        self.arguments: list[dict[str, Any]] = described["arguments"]
        self._preserved = _float_control().preserved
        with self._preserved():  # a library may change the processor's floating-point modes when it is loaded
            self._function = ctypes.CDLL(str(Path(folder).absolute() / described["library"]))[described["entry"]]
        self._function.restype = None
        self._workspaces = {each["name"]: self.empty(each["name"]) for each in self._of("workspace")}
        self._lock = threading.Lock()  # ctypes releases the interpreter lock while the function runs

    def __call__(self, **arrays: np.ndarray) -> dict[str, np.ndarray]:
        """Call the kernel, and return the outputs by name.

        All inputs must be passed by name. Outputs may be passed; the kernel then writes to these arrays. An argument
        that is None counts as not passed. In-place arguments (inout) are passed like inputs, changed, and also
        returned. Outputs and workspaces that have an initial value are filled with this value before the call. If
        `init_timed` is false for an output, the caller must fill the array that it passes for this output.

        Raises:
            TypeError: an argument is missing or unknown, or is not an array of its dtype.
            ValueError: an array does not have the shape for which the kernel was compiled, or contains a value outside
                the argument's limits. Or an output is read-only, or shares memory with another array.
        """
        arrays = {name: array for name, array in arrays.items() if array is not None}
        inputs = {each["name"] for each in self._of("input", "inout")}
        outputs = {each["name"] for each in self._of("output", "inout")}
        for name in sorted(inputs - arrays.keys()) + sorted(arrays.keys() - inputs - outputs):
            problem = "is missing" if name in inputs else "is not an argument"
            if name in self.problem and name not in inputs:
                problem = f"is fixed: the kernel was compiled for {name}={self.problem[name]}, so omit it"
            raise TypeError(
                f"{name} {problem}; inputs: {', '.join(sorted(inputs))}; outputs: {', '.join(sorted(outputs))}"
            )
        for name in sorted(outputs & arrays.keys()):
            _refuse_unusable_output(name, arrays)
        held = {
            each["name"]: self._storage(each, arrays.get(each["name"])) for each in self._of("input", "output", "inout")
        }
        with self._lock, self._preserved():
            self._fill(held, arrays)
            self._function(*(self._passed(each, held) for each in self.arguments))
        return {name: self._copied_back(held[name], arrays.get(name)) for name in sorted(outputs)}

    def empty(self, name: str) -> np.ndarray:
        """Return a new, uninitialised array for an argument, aligned so that a call need not copy it."""
        each = next(each for each in self.arguments if each["name"] == name)
        dtype = np.dtype(each["stored"])
        size = int(np.prod(each["shape"], dtype=np.int64)) * dtype.itemsize
        alignment = _alignment(each)
        memory = np.empty(size + alignment, dtype=np.uint8)
        start = -memory.ctypes.data % alignment
        aligned: np.ndarray = memory[start : start + size].view(dtype).reshape(each["shape"])
        return aligned

    def _of(self, *roles: str) -> list[dict[str, Any]]:
        return [each for each in self.arguments if each["role"] in roles]

    def _storage(self, each: dict[str, Any], given: np.ndarray | None) -> np.ndarray:
        """Return the memory to pass for an argument.

        This is the caller's array if it is contiguous and aligned, else an aligned copy of it. If the caller passed no
        array (`given` is None), it is a new array.
        """
        if given is None:
            return self.empty(each["name"])
        if not isinstance(given, np.ndarray) or given.dtype != np.dtype(each["stored"]):
            raise TypeError(f"{each['name']} must be a NumPy array of {each['stored']}, not {_described(given)}")
        if list(given.shape) != each["shape"]:
            raise ValueError(f"{each['name']} must have shape {tuple(each['shape'])}, not {given.shape}")
        if "min" in each or "max" in each:
            _refuse_beyond(each, int(given.min()), int(given.max()))
        if given.flags.c_contiguous and given.ctypes.data % _alignment(each) == 0:
            return given
        copy = self.empty(each["name"])
        copy[...] = given
        return copy

    def _fill(self, held: dict[str, np.ndarray], arrays: dict[str, np.ndarray]) -> None:
        for each in self.arguments:
            if "init" in each and (each["init_timed"] or each["name"] not in arrays):
                self._array(each, held)[...] = each["init"]

    def _array(self, each: dict[str, Any], held: dict[str, np.ndarray]) -> np.ndarray:
        return self._workspaces[each["name"]] if each["role"] == "workspace" else held[each["name"]]

    def _passed(self, each: dict[str, Any], held: dict[str, np.ndarray]) -> Any:
        if each["role"] == "scalar":
            return SCALARS[each["dtype"]](each["value"])
        return ctypes.c_void_p(self._array(each, held).ctypes.data)

    def _copied_back(self, written: np.ndarray, given: np.ndarray | None) -> np.ndarray:
        if given is None or given is written:
            return written
        given[...] = written
        return given


def _alignment(each: dict[str, Any]) -> int:
    """Return the required alignment of an argument in bytes: the family's alignment, but at least a cache line."""
    return max(ALIGNMENT, int(each.get("alignment", 1)))


def _float_control() -> Any:
    """Import ``float_control.py`` by its path, because every export has a file with this name."""
    place = Path(__file__).parent / "float_control.py"
    spec = importlib.util.spec_from_file_location(f"{__name__}_float_control", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _refuse_unusable_output(name: str, arrays: dict[str, Any]) -> None:
    """Raise ValueError if a passed output is read-only or overlaps another argument."""
    given = arrays[name]
    if not isinstance(given, np.ndarray):
        return
    if not given.flags.writeable:
        raise ValueError(f"{name} is read-only; pass an array that can be written, or leave it out to get a new one")
    for other, array in arrays.items():
        if other != name and isinstance(array, np.ndarray) and np.may_share_memory(given, array):
            raise ValueError(f"{name} overlaps {other} in memory; pass a separate array, or omit {name}")


def _refuse_beyond(each: dict[str, Any], least: int, most: int) -> None:
    """Raise ValueError if an argument's smallest or largest value is outside its limits (e.g. lengths of a cache)."""
    low, high = each.get("min", least), each.get("max", most)
    if least < low or most > high:
        wrong = least if least < low else most
        raise ValueError(f"{each['name']} contains {wrong}, but its values must be from {low} to {high}")


def _described(value: object) -> str:
    return f"one of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__


def _random(each: dict[str, Any], rng: np.random.Generator) -> Any:
    if each["stored"] == each["dtype"] and each["dtype"].startswith("float"):
        return rng.standard_normal(each["shape"])
    most = 1 if each["dtype"] == "bool" else FINITE_CODES - 1
    return rng.integers(each.get("min", 0), each.get("max", most) + 1, each["shape"])


def main(repeats: int = 50) -> None:
    """Print the arguments, and the time of a call on random inputs."""
    kernel = Kernel()
    arrays = {
        each["name"]: kernel.empty(each["name"])
        for each in kernel.arguments
        if each["role"] not in ("scalar", "workspace")
    }
    rng, wide = np.random.default_rng(0), max(len(each["name"]) for each in kernel.arguments)
    for each in kernel.arguments:
        print(f"{each['role']:<9} {each['name']:<{wide}} {each['dtype']:<13} {each['shape'] or each['value']}")
        if each["role"] in ("input", "inout"):
            arrays[each["name"]][...] = _random(each, rng)
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        kernel(**arrays)
        times.append(time.perf_counter() - begun)
    data = "one set of random inputs (outputs are not checked)"
    print(f"median of {repeats} calls on {data}: {np.median(times) * 1e6:.1f} µs, including the overhead of Python")


if __name__ == "__main__":
    main()
