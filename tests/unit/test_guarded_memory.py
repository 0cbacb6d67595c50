"""Writes outside a guarded buffer and changed inputs are detected."""

import ctypes
import os

import numpy as np
import pytest

from workers.backends import LaunchError, Placement
from workers.backends.cpu import memory
from workers.backends.cpu.memory import GUARD_BYTES, GuardedArray, HostBuffers, host_sets
from workers.backends.cpu.process.address_space import _unused
from workers.backends.distance import POISON
from workers.build.kernel import Argument

X = Argument(name="x", role="input", dtype="float32", shape=(3, 5))
Y = Argument(name="y", role="output", dtype="float32", shape=(7,))
W = Argument(name="w", role="workspace", dtype="float64", shape=(2,))
N = Argument(name="n", role="scalar", dtype="int32", value=7)
INPUTS = {"x": np.arange(15, dtype=np.float32).reshape(3, 5)}


def poke(address: int, value: int = 0) -> None:
    ctypes.c_uint8.from_address(address).value = value


def test_new_buffer_set_is_poisoned_and_undamaged() -> None:
    buffers = HostBuffers([X, Y, W, N], INPUTS)
    assert np.isnan(buffers.read("y")).all()
    assert np.isnan(buffers.read("w")).all()
    assert np.array_equal(buffers.read("x"), INPUTS["x"])
    assert buffers.damage() is None
    assert buffers.bytes_held == 15 * 4 + 7 * 4 + 2 * 8


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (7 * 4, "after `y`, the nearest 0 bytes"),
        (7 * 4 + 8, "after `y`, the nearest 8 bytes"),
        (7 * 4 + GUARD_BYTES - 1, "after `y`"),
        (-1, "before `y`, the nearest 0 bytes"),
        (-GUARD_BYTES, f"before `y`, the nearest {GUARD_BYTES - 1} bytes"),
    ],
)
def test_single_byte_written_out_of_bounds_is_detected(offset: int, words: str) -> None:
    buffers = HostBuffers([X, Y], INPUTS)
    poke(buffers.call_arguments[1].value + offset)
    assert words in (buffers.damage() or "")
    buffers.poison()
    assert buffers.damage() is None


def test_input_modified_by_a_kernel_is_detected() -> None:
    buffers = HostBuffers([X, Y], INPUTS)
    poke(buffers.call_arguments[0].value + 9, 1)
    assert buffers.damage() == "modifies its input `x`"


def test_additional_buffer_set_shares_only_inputs_with_the_first_set() -> None:
    buffers = HostBuffers([X, Y, W], INPUTS)
    other = buffers.sibling()
    assert isinstance(other, HostBuffers)
    ctypes.memset(buffers.call_arguments[1].value, 1, 7 * 4)
    assert other.call_arguments[0].value == buffers.call_arguments[0].value
    assert np.isnan(other.read("y")).all()
    other.rewrite(buffers)
    assert np.array_equal(other.read("y"), buffers.read("y"))
    poke(other.call_arguments[0].value, 1)
    assert other.damage() == buffers.damage() == "modifies its input `x`"


@pytest.mark.parametrize("most_written_bytes", [1000, 1 << 20])
def test_many_buffer_sets_have_equal_contents_in_separate_memory(
    monkeypatch: pytest.MonkeyPatch, most_written_bytes: int
) -> None:
    real = os.pwrite

    def pwrite(file: int, data: memoryview, offset: int) -> int:
        return real(file, data[:most_written_bytes], offset)

    monkeypatch.setattr(os, "pwrite", pwrite)
    z = Argument(name="z", role="inout", dtype="float32", shape=(3000,))
    inputs = {**INPUTS, "z": np.arange(3000, dtype=np.float32)}
    sets = host_sets([X, Y, W, z, N], inputs, 5)
    assert len(sets) == 5
    for number, buffers in enumerate(sets):
        assert isinstance(buffers, HostBuffers)
        assert buffers.damage() is None
        assert np.array_equal(buffers.read("x"), inputs["x"])
        assert np.array_equal(buffers.originals["z"].values, inputs["z"])
        for name in ("y", "w", "z"):
            assert set(buffers.arrays[name].bytes.tobytes()) == {POISON}
        poke(buffers.call_arguments[0].value, number + 1)
        poke(buffers.call_arguments[1].value + 7 * 4 + number)
    for number, buffers in enumerate(sets):
        assert buffers.read("x").view(np.uint8).reshape(-1)[0] == number + 1
        assert f"1 bytes of the guard band after `y`, the nearest {number} bytes" in (buffers.damage() or "")


def test_additional_buffer_sets_are_poisoned_and_have_separate_outputs() -> None:
    buffers = HostBuffers([X, Y, W], INPUTS)
    siblings = buffers.siblings(3)
    for number, each in enumerate(siblings):
        assert isinstance(each, HostBuffers)
        assert each.damage() is None
        assert set(each.read("y").tobytes()) == set(each.read("w").tobytes()) == {POISON}
        poke(each.call_arguments[1].value, number)
    assert [each.read("y").view(np.uint8)[0] for each in siblings] == [0, 1, 2]
    assert buffers.siblings(0) == []


def test_failed_allocation_of_buffer_sets_names_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, data: memoryview, offset: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(MemoryError, match=r"45056 bytes of shared memory cannot be allocated: .*No space left"):
        host_sets([X, Y], INPUTS, 3)


@pytest.mark.parametrize("most_copied_bytes", [0, 64])
@pytest.mark.parametrize("byte", [0, 7, 8, 12])
def test_change_of_any_single_output_byte_is_detected(
    monkeypatch: pytest.MonkeyPatch, byte: int, most_copied_bytes: int
) -> None:
    monkeypatch.setattr(memory, "_MOST_COPIED_BYTES", most_copied_bytes)
    buffers = HostBuffers([X, Argument(name="y", role="output", dtype="int8", shape=(13,))], INPUTS)
    remembered, other = buffers.remember("y"), buffers.sibling()
    other.rewrite(buffers)
    assert buffers.unchanged("y", remembered) and other.same_outputs([buffers]) == [True]
    poke(buffers.call_arguments[1].value + byte)
    assert not buffers.unchanged("y", remembered)
    assert other.same_outputs([buffers]) == [False]


def test_poisoning_leaves_inputs_unchanged() -> None:
    buffers = HostBuffers([X, Y], INPUTS)
    buffers.poison(0xA5)
    assert np.array_equal(buffers.read("x"), INPUTS["x"])
    assert set(buffers.read("y").tobytes()) == {0xA5}
    assert buffers.damage() is None


def test_scalars_are_passed_with_their_declared_type_or_refused() -> None:
    assert HostBuffers([N], {}).call_arguments[0].value == 7
    odd = Argument(name="h", role="scalar", dtype="float16", value=1.0)
    with pytest.raises(LaunchError, match="scalar `h`: float16 cannot be passed; use one of int32"):
        HostBuffers([odd], {})


def test_guarded_array_data_is_aligned_to_64_bytes() -> None:
    assert GuardedArray(Y).values.ctypes.data % 64 == 0
    assert POISON == 0xFF


@pytest.mark.parametrize("alignment", [1, 32, 1024])
@pytest.mark.parametrize("where", ["first", "last", "unaligned"])
def test_guarded_buffers_have_exactly_the_required_alignment(where: str, alignment: int) -> None:
    held = GuardedArray(Argument(name="x", role="input", dtype="float16", shape=(7,), alignment=alignment))
    starts = set()
    for shift in range(1, 4096, 2):
        held.place(Placement(where=where, shift=shift))  # type: ignore[arg-type]
        starts.add(held.bytes.ctypes.data)
    assert all(start % max(alignment, 2) == 0 for start in starts)
    if where == "unaligned":
        assert any(start % (2 * max(alignment, 2)) for start in starts)


def test_rewritten_outputs_are_removed_from_the_caches() -> None:
    evicted = list[int]()
    first, second = host_sets([X, Y, W], INPUTS, 2, evict=lambda array: evicted.append(array.nbytes))
    first.rewrite(second)
    assert evicted == [7 * 4, 2 * 8], "outputs and workspaces, but no inputs"
    first.sibling().rewrite(second)
    assert evicted == [7 * 4, 2 * 8] * 2


def test_unused_part_of_a_register_contains_zeros_or_random_bytes() -> None:
    found = [_unused(4) for _ in range(100)]
    assert {len(each) for each in found} == {4}
    assert 20 < sum(each == bytes(4) for each in found) < 80
    assert len(set(found)) > 20


def test_arrays_of_a_set_are_aligned_independently_of_each_other() -> None:
    aligned = set[tuple[bool, bool]]()
    for shift in range(1, 400, 2):
        buffers = HostBuffers([X, Y], INPUTS)
        for number, array in enumerate(buffers.arrays.values()):
            array.place(Placement(where="unaligned", shift=shift), number)
        x, y = (each.offset % 64 == 0 for each in buffers.arrays.values())
        aligned.add((x, y))
    assert {(True, False), (False, True), (False, False)} <= aligned
