"""Buffer sets in host and GPU memory behave equally; the GPU's runtime is faked on the host."""

import ctypes
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np
import pytest
from numpy.typing import NDArray

from workers.backends import Buffers
from workers.backends.cpu.memory import HostBuffers
from workers.backends.cuda.buffers import GUARD_BYTES, DeviceBuffers, DeviceReferences, GuardedBuffer, Span
from workers.backends.cuda.memory import DeviceMemory
from workers.backends.distance import Distance, distance
from workers.build.kernel import Argument

X = Argument(name="x", role="input", dtype="float32", shape=(8,))
OUT = Argument(name="out", role="output", dtype="float32", shape=(8,))
FIRST, SECOND = ({"x": np.arange(start, start + 8, dtype=np.float32)} for start in (0, 100))
STREAM = 7
Allocate = Callable[[Mapping[str, NDArray[Any]]], Buffers]


class OutOfMemory(RuntimeError):
    status = 2


class HostRuntime:
    """A fake of CuPy's ``cuda.runtime`` on host memory, with the functions that buffers use.

    Like a device, it executes operations later: when the host waits for them, or frees memory.

    Args:
        free_bytes: size of the fake device memory.
    """

    memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice = 1, 2, 3  # noqa: N815 - CuPy's names

    def __init__(self, free_bytes: int = 1 << 30) -> None:
        self.free_bytes, self.uploads, self.waits = free_bytes, 0, 0
        self._later: deque[Callable[[], object]] = deque()
        self._held: dict[int, ctypes.Array[ctypes.c_char]] = {}

    def malloc(self, size: int) -> int:
        if size > self.free_bytes:
            raise OutOfMemory
        self.free_bytes -= size
        memory = ctypes.create_string_buffer(size)
        self._held[ctypes.addressof(memory)] = memory
        return ctypes.addressof(memory)

    def free(self, pointer: int) -> None:
        self._finish()
        self.free_bytes += len(self._held.pop(pointer))

    def memsetAsync(self, pointer: int, byte: int, size: int, stream: int) -> None:
        self._later.append(lambda: ctypes.memset(pointer, byte, size))

    def memcpyAsync(self, to: int, source: int, size: int, kind: int, stream: int) -> None:
        assert kind in (1, 2, 3)
        self.uploads += kind == self.memcpyHostToDevice
        self._later.append(lambda: ctypes.memmove(to, source, size))

    def streamSynchronize(self, stream: int) -> None:
        self.waits += 1
        self._finish()

    def _finish(self) -> None:
        while self._later:
            self._later.popleft()()


class HostKernels:
    def __init__(self, runtime: HostRuntime) -> None:
        self._runtime = runtime

    def checksums(self, spans: Sequence[Span]) -> list[int]:
        self._runtime.streamSynchronize(STREAM)
        return [hash(ctypes.string_at(*span)) for span in spans]

    def distance(self, buffer: GuardedBuffer, reference: NDArray[np.float64]) -> Distance:
        return distance(buffer.read(), reference)


@pytest.fixture(params=["host", "device"])
def allocate(request: pytest.FixtureRequest) -> Allocate:
    if request.param == "host":
        return lambda inputs: HostBuffers((X, OUT), inputs)
    runtime = HostRuntime()
    memory, kernels = DeviceMemory(runtime, STREAM), HostKernels(runtime)
    return lambda inputs: DeviceBuffers((X, OUT), inputs, memory, kernels)


def address(buffers: Buffers, name: str) -> int:
    if isinstance(buffers, HostBuffers):
        return int(buffers.arrays[name].bytes.ctypes.data)
    assert isinstance(buffers, DeviceBuffers)
    return int(buffers.pointers[name])


def scribble(buffers: Buffers, name: str, value: float) -> None:
    buffers.read(name)  # waits for earlier operations
    ctypes.memmove(address(buffers, name), np.array([value], np.float32).tobytes(), 4)


def test_refilling_a_buffer_set_replaces_inputs_without_changing_their_addresses(allocate: Allocate) -> None:
    buffers, other = allocate(FIRST), allocate(SECOND)
    before = address(buffers, "x")
    buffers.refill(other)
    assert address(buffers, "x") == before
    assert np.array_equal(buffers.read("x"), SECOND["x"])
    assert buffers.damage() is None
    assert np.array_equal(other.read("x"), SECOND["x"])
    scribble(buffers, "x", -1.0)
    assert buffers.damage() == "modifies its input `x`"
    assert other.damage() is None


def test_rewriting_a_buffer_set_copies_outputs_and_keeps_inputs(allocate: Allocate) -> None:
    held, moving = allocate(FIRST), allocate(SECOND)
    moving.refill(held)
    scribble(moving, "out", 7.0)
    right = held.sibling()
    right.rewrite(moving)
    assert right.read("out")[0] == 7.0
    assert address(right, "x") == address(held, "x")
    moving.refill(allocate(SECOND))
    assert np.array_equal(right.read("x"), FIRST["x"])
    assert right.damage() is None


def test_outputs_of_many_buffer_sets_are_compared_after_one_wait() -> None:
    runtime = HostRuntime()
    buffers = DeviceBuffers((X, OUT), FIRST, DeviceMemory(runtime, STREAM), HostKernels(runtime))
    sets = buffers.siblings(5)
    for each in sets:
        each.rewrite(buffers)
    scribble(sets[3], "out", 7.0)
    before = runtime.waits
    assert buffers.same_outputs(sets) == [True, True, True, False, True]
    assert buffers.same_outputs([]) == []
    assert runtime.waits - before == 2


def test_host_array_stays_allocated_until_the_device_has_copied_its_values() -> None:
    runtime = HostRuntime()
    memory = DeviceMemory(runtime, STREAM)
    pointer, values = memory.allocate(32), np.arange(8, dtype=np.float32)
    freed = ref(values)
    memory.write(pointer, values)
    del values
    assert freed() is not None
    found = np.empty(8, np.float32)
    memory.read(pointer, found)
    assert np.array_equal(found, np.arange(8)) and freed() is None


def test_expected_outputs_are_kept_in_device_memory_up_to_a_limit() -> None:
    runtime = HostRuntime()
    references = DeviceReferences(DeviceMemory(runtime, STREAM), 3 * 80)
    arrays = [np.arange(start, start + 10, dtype=np.float64) for start in range(5)]
    for values in (*arrays[:3], *arrays[:3]):
        assert np.array_equal(references.buffer(values).read(), values)
    assert runtime.uploads == 3
    held = runtime.free_bytes
    for values in arrays[3:]:
        references.buffer(values)
    assert runtime.free_bytes == held
    assert np.array_equal(references.buffer(arrays[0]).read(), arrays[0]), "removed expected values are copied again"
    assert runtime.uploads == 6


def test_expected_output_larger_than_the_limit_replaces_all_others() -> None:
    runtime = HostRuntime()
    before, references = runtime.free_bytes, DeviceReferences(DeviceMemory(runtime, STREAM), 100)
    small, large = np.zeros(2), np.zeros(1000)
    references.buffer(small)
    references.buffer(large)
    assert before - runtime.free_bytes == large.nbytes + 2 * GUARD_BYTES


def test_outputs_are_compared_on_the_host_if_expected_outputs_exceed_device_memory() -> None:
    runtime = HostRuntime()
    memory, kernels = DeviceMemory(runtime, STREAM), HostKernels(runtime)
    references = DeviceReferences(memory, 1 << 20)

    class Comparing(HostKernels):
        def distance(self, buffer: GuardedBuffer, reference: NDArray[np.float64]) -> Distance:
            references.buffer(reference)
            return kernels.distance(buffer, reference)

    buffers = DeviceBuffers((X, OUT), FIRST, memory, Comparing(runtime))
    scribble(buffers, "out", 7.0)
    expected = buffers.distance("out", np.ones(8))
    runtime.free_bytes = 0
    assert buffers.distance("out", np.ones(8)) == expected
