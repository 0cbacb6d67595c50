"""A fake CuPy that computes with NumPy, but whose arrays cannot be mixed with NumPy's arrays."""

import threading
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin


class OnGpu(NDArrayOperatorsMixin):
    """An array that is not a NumPy array but accepts NumPy's functions, like a CuPy array."""

    def __init__(self, values: Any) -> None:
        self.values = np.array(values)

    def __array_ufunc__(self, function: Any, method: str, *given: Any, out: Any = (), **named: Any) -> Any:
        assert all(isinstance(each, OnGpu | np.generic | int | float | bool) for each in given), "mixed libraries"
        into = {"out": tuple(_bare(each) for each in out)} if out else {}
        return _wrapped(getattr(function, method)(*map(_bare, given), **into, **named))

    def __array_function__(self, function: Any, types: Any, given: Any, named: dict[str, Any]) -> Any:
        named.pop("like", None)
        return _wrapped(function(*map(_bare, given), **named))

    def __len__(self) -> int:
        return len(self.values)

    def get(self) -> np.ndarray:
        return self.values

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.values, name)
        if not callable(attribute):
            return _wrapped(attribute)
        return lambda *given, **named: _wrapped(attribute(*map(_bare, given), **named))

    def __getitem__(self, place: Any) -> Any:
        return _wrapped(self.values[_bare(place)])

    def __setitem__(self, place: Any, values: Any) -> None:
        self.values[_bare(place)] = _bare(values)


def _bare(value: Any) -> Any:
    return value.values if isinstance(value, OnGpu) else value


def _wrapped(value: Any) -> Any:
    return OnGpu(value) if isinstance(value, np.ndarray) else value


class Device:
    """The current GPU of a thread within a block. `current` is its index."""

    current: ClassVar[threading.local] = threading.local()

    def __init__(self, index: int) -> None:
        self._index = index
        self._before = 0

    def __enter__(self) -> None:
        self._before = getattr(self.current, "index", 0)
        self.current.index = self._index

    def __exit__(self, *_: object) -> None:
        self.current.index = self._before


class Pool:
    def __init__(self) -> None:
        self.freed = 0

    def free_all_blocks(self) -> None:
        self.freed += 1


def cupy(devices: int | Exception) -> ModuleType:
    """Return a fake CuPy module with the functions that this project uses."""

    def count() -> int:
        if isinstance(devices, Exception):
            raise devices
        return devices

    def asnumpy(values: OnGpu, *, out: np.ndarray | None = None) -> np.ndarray:
        assert isinstance(values, OnGpu)
        if out is not None:
            assert out.flags.c_contiguous
            out[...] = values.values
        return values.values if out is None else out

    pool = Pool()
    module = ModuleType("cupy")
    vars(module).update(
        cuda=SimpleNamespace(runtime=SimpleNamespace(getDeviceCount=count), Device=Device),
        get_default_memory_pool=lambda: pool,
        asarray=OnGpu,
        asnumpy=asnumpy,
        __getattr__=lambda name: getattr(np, name),
    )
    return module
