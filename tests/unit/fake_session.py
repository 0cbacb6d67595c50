"""A device whose kernels are Python functions, for tests of the runner without a real device."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evo.family import Launch
from workers.backends import Buffers, CallMode, Placement, Remembered, Timer
from workers.backends.distance import POISON, Distance, distance
from workers.build.kernel import Argument
from workers.measure.family.expected_output import ExpectedOutput, Limit

Kernel = Callable[[dict[str, NDArray[Any]]], None]


class FakeBuffers:
    """Fake buffers in NumPy arrays. The method `damage` returns the attribute `fault`."""

    bytes_held = 64

    def __init__(self, inputs: Mapping[str, NDArray[Any]], outputs: Mapping[str, NDArray[Any]]) -> None:
        self.arrays = {**inputs, **outputs}
        self._outputs = outputs
        self.fault: str | None = None

    def poison(self, byte: int = POISON) -> None:
        for array in self._outputs.values():
            array.view(np.uint8).fill(byte)

    def sibling(self) -> "FakeBuffers":
        raise NotImplementedError

    def siblings(self, count: int) -> list[Buffers]:
        raise NotImplementedError

    def place(self, placement: Placement) -> None: ...

    def renew(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        for name, values in inputs.items():
            self.arrays[name][...] = values

    def write_part(self, name: str, place: int | slice, value: Any) -> None:
        self.arrays[name].reshape(-1)[place] = value

    def rewrite(self, source: Buffers) -> None:
        raise NotImplementedError

    def refill(self, source: Buffers) -> None:
        raise NotImplementedError

    def same_outputs(self, others: Sequence[Buffers]) -> list[bool]:
        return [
            all(np.array_equal(values, other.read(name)) for name, values in self._outputs.items()) for other in others
        ]

    def read(self, name: str) -> NDArray[Any]:
        return self.arrays[name].copy()

    def distance(self, name: str, reference: NDArray[Any]) -> Distance:
        return distance(self.arrays[name], reference)

    def remember(self, name: str) -> Remembered:
        return hash(self.arrays[name].tobytes())

    def unchanged(self, name: str, remembered: Remembered) -> bool:
        return self.remember(name) == remembered

    def damage(self) -> str | None:
        return self.fault


class FakeSession:
    """A fake session that calls Python functions with the arrays of the buffers, and counts launches."""

    cold_bytes = 1 << 20

    def __init__(self) -> None:
        self.launches = 0
        self.left_running: str | None = None

    def limit_memory(self, most_bytes: int) -> None: ...

    def call(self, kernel: Kernel, buffers: Buffers, mode: CallMode = CallMode()) -> None:
        assert isinstance(buffers, FakeBuffers)
        self.launches += 1
        kernel(buffers.arrays)

    def settle(self) -> None: ...

    def self_test(self) -> str | None:
        return None

    def residue(self, kernel: Any = None, *, brief: bool = False) -> str | None:
        return self.left_running

    def load(
        self,
        binary: Path,
        entry: str,
        arguments: Sequence[Argument],
        launch: Launch | None,
        *,
        elsewhere: int | None = None,
    ) -> Kernel:
        raise NotImplementedError

    def allocate_sets(
        self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]], count: int
    ) -> Sequence[Buffers]:
        raise NotImplementedError

    def allocate(self, arguments: Sequence[Argument], inputs: Mapping[str, NDArray[Any]]) -> Buffers:
        raise NotImplementedError

    def timer(self, kernel: Kernel, sets: Sequence[Buffers], *, once: bool = False) -> Timer:
        raise NotImplementedError

    def callable_timer(self, calls: Sequence[Callable[[], object]]) -> Timer:
        return ScriptedTimer([1.0])

    def anchor(self) -> Timer:
        return ScriptedTimer([20.0])

    def floor(self) -> Timer:
        return ScriptedTimer([0.1])

    def environment(self) -> Mapping[str, str]:
        return {}


class ScriptedTimer:
    """A fake timer that returns prepared samples in order, and records its calls."""

    calls, last = 1, 0

    def __init__(self, samples_us: Sequence[float], name: str = "", asked: list[str] | None = None) -> None:
        self._samples_us = samples_us
        self._name = name
        self.asked = [] if asked is None else asked

    def sample(self) -> float:
        self.asked.append(self._name)
        return self._samples_us[(len(self.asked) - 1) % len(self._samples_us)]


def doubled(dtype: str = "float32", size: int = 8) -> tuple[FakeBuffers, ExpectedOutput]:
    """Return buffers and expected outputs of ``y = 2 x``, with a tight tolerance."""
    x = np.arange(1, size + 1).astype(dtype)
    golden = ExpectedOutput(
        case="nominal",
        inputs={"x": x},
        reference={"y": 2.0 * x.astype(np.float64)},
        limits={"y": Limit(rel_l2=1e-6, max_abs=1e-5)},
    )
    return FakeBuffers({"x": x}, {"y": np.zeros(size, dtype)}), golden
