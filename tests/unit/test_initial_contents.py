"""A family can declare in-place arguments and initial values, which are restored before each call."""

import ctypes
from typing import Any

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.family import Family
from evo.trial.objective import Objective
from tests.unit.family_document import document
from workers.backends.cpu.memory import HostBuffers
from workers.backends.cuda import launch
from workers.backends.cuda.launch import Restore
from workers.build.kernel import Argument


def document_with(**keys: object) -> dict[str, Any]:
    """Return a document whose output `out` has these additional keys."""
    changed = document()
    changed["arguments"][3] |= keys
    return changed


def out(found: dict[str, Any]) -> Any:
    family = Family.from_document(found)
    return next(each for each in family.operands(family.problem("")) if each.name == "out")


@pytest.mark.parametrize(
    ("init", "value", "timed"),
    [
        (0, 0, True),
        ("2 * ROWS", 256, True),
        ({"value": 1.5}, 1.5, True),
        ({"value": "0", "timed": False}, 0, False),
    ],
)
def test_init_key_may_be_a_value_or_a_table(init: object, value: float, timed: bool) -> None:
    operand = out(document_with(init=init))
    assert (operand.init, operand.init_timed) == (value, timed)


def test_outputs_have_no_initial_value_by_default() -> None:
    assert out(document_with()).init is None


def test_init_of_a_workspace_may_use_derived_values() -> None:
    changed = document()
    changed["arguments"][2]["init"] = "parts"
    assert Family.from_document(changed).arguments[2].initial is not None


@pytest.mark.parametrize(
    ("place", "init", "field", "reason"),
    [
        (0, 0, "arguments[0].init", "applies only to outputs and workspaces"),
        (1, 0, "arguments[1].init", "`value` sets this scalar"),
        (3, "parts", "arguments[3].init", "parts"),
        (3, {"value": 0, "when": 1}, "arguments[3].init.when", "when"),
    ],
)
def test_error_names_the_invalid_init_key(place: int, init: object, field: str, reason: str) -> None:
    changed = document()
    changed["arguments"][place]["init"] = init
    with pytest.raises(InvalidInput) as refused:
        Family.from_document(changed)
    assert refused.value.field == f"family.toml: {field}"
    assert reason in refused.value.reason


@pytest.mark.parametrize(("dtype", "init"), [("uint8", 256), ("int8", -129), ("int32", 0.5), ("bool", 2)])
def test_init_of_an_integer_buffer_must_be_a_value_of_the_dtype(dtype: str, init: float) -> None:
    with pytest.raises(InvalidInput, match="holds only whole numbers from"):
        out(document_with(init=init, dtype=dtype, rel_l2=0, max_abs_ratio=1))


def test_operands_include_inputs_and_in_place_arguments() -> None:
    changed = document_with(role="inout")
    family = Family.from_document(changed)
    assert [each.role for each in family.operands(family.problem(""))] == ["input", "inout"]


def test_in_place_argument_needs_a_tolerance() -> None:
    changed = document_with(role="inout")
    del changed["arguments"][3]["rel_l2"]
    with pytest.raises(InvalidInput, match=r"arguments\[3\]\.rel_l2: is missing"):
        Family.from_document(changed)


def test_family_may_be_declared_nondeterministic() -> None:
    family = Family.from_document({**document(), "deterministic": False})
    assert not family.terms(Objective()).deterministic
    assert Family.from_document(document()).terms(Objective()).deterministic


@pytest.mark.parametrize(
    ("dtype", "init", "pattern"),
    [
        ("uint8", 7, "07" * 8),
        ("int16", 1, "0100" * 4),
        ("float32", 1.0, "0000803f" * 2),
        ("float64", 1.0, "000000000000f03f"),
        ("bfloat16", 1.0, "803f" * 4),
        ("float8_e4m3", 1.0, "38" * 8),
        ("int64", -1, "ff" * 8),
    ],
)
def test_initial_bytes_of_a_buffer_repeat_the_encoded_initial_value(dtype: str, init: float, pattern: str) -> None:
    argument = Argument(name="x", role="output", dtype=dtype, shape=(3,), init=init)
    assert argument.pattern == bytes.fromhex(pattern)
    assert argument.initial_bytes() == argument.pattern[: argument.stored.itemsize] * 3


class HostDriver:
    """A fake driver whose fills and copies act on host memory."""

    def cuMemcpyDtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> int:
        ctypes.memmove(to.value, source.value, size.value)
        return 0

    def cuMemsetD8Async(self, to: Any, word: Any, count: Any, stream: Any) -> int:
        return self._fill(to.value, word, count.value, 1)

    def cuMemsetD16Async(self, to: Any, word: Any, count: Any, stream: Any) -> int:
        return self._fill(to.value, word, count.value, 2)

    def cuMemsetD32Async(self, to: Any, word: Any, count: Any, stream: Any) -> int:
        return self._fill(to.value, word, count.value, 4)

    def cuMemsetD2D32Async(self, to: Any, pitch: Any, *given: Any) -> int:
        word, width, height, _ = given
        for row in range(height.value):
            self._fill(to.value + row * pitch.value, word, width.value, 4)
        return 0

    @staticmethod
    def _fill(to: int, word: Any, count: int, width: int) -> int:
        ctypes.memmove(to, bytes(word)[:width] * count, width * count)
        return 0


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", "float32", "float64", "int64", "float8_e5m2"])
@pytest.mark.parametrize("init", [0, 1, 3])
def test_initial_value_fills_exactly_the_device_memory_of_its_buffer(
    dtype: str, init: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "library", HostDriver)
    argument = Argument(name="x", role="output", dtype=dtype, shape=(5,), init=init)
    memory = ctypes.create_string_buffer(b"\x77" * (argument.bytes + 1), argument.bytes + 1)
    Restore(pointer=ctypes.addressof(memory), size=argument.bytes, pattern=argument.pattern).enqueue(0)
    assert memory.raw == argument.initial_bytes() + b"\x77"


def test_restoring_buffers_resets_in_place_arguments_and_initial_values() -> None:
    x = Argument(name="x", role="inout", dtype="float32", shape=(4,))
    sum_ = Argument(name="sum", role="output", dtype="int16", shape=(3,), init=5, init_timed=False)
    buffers = HostBuffers((x, sum_), {"x": np.arange(4, dtype=np.float32)})
    buffers.arrays["x"].values[...] = 9
    assert buffers.damage() is None
    buffers.restore()
    assert buffers.read("x").tolist() == [0, 1, 2, 3]
    assert buffers.read("sum").tolist() == [5, 5, 5]
    buffers.renew({"x": np.full(4, 2, np.float32)})
    buffers.restore()
    assert buffers.read("x").tolist() == [2, 2, 2, 2]
