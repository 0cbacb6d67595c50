"""The outputs of reference.py are checked against family.toml, and errors name the cause."""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from evo.family import DTYPES, Operand
from evo.family.argument import Tolerance
from evo.reference.encoding import encoded, is_floating, stored
from workers.backends.distance import distance
from workers.measure.family.contract import check_input, check_names, check_reference
from workers.measure.family.expected_output import FamilyError

MAKER = "reference.py, reference()"
INTEGERS = [dtype for dtype in DTYPES if not is_floating(dtype)]
FLOATS = [dtype for dtype in DTYPES if is_floating(dtype)]
LARGE = ("int64", "uint64")


def operand(dtype: str, *shape: int, role: Any = "output") -> Operand:
    tolerance = Tolerance(rel_l2=0.0, max_abs=0.0) if role == "output" else None
    return Operand(name="y", role=role, dtype=dtype, shape=shape or (4,), tolerance=tolerance)


def checked(dtype: str, made: Any) -> Any:
    return check_reference(operand(dtype), made, case="nominal", maker=MAKER)


def extremes(dtype: str) -> list[int]:
    if dtype == "bool":
        return [0, 1, 1, 0]
    limits = np.iinfo(dtype)
    return [limits.min, limits.min + 1, limits.max - 1, limits.max]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_every_width_are_compared_exactly(dtype: str) -> None:
    values = np.array(extremes(dtype), dtype)
    reference = checked(dtype, values)
    assert reference.dtype == stored(dtype)
    assert reference.tolist() == values.tolist()
    assert distance(values, reference).max_abs == 0.0
    assert distance(values, reference).unwritten is None


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("place", range(4))
def test_integer_that_is_off_by_one_is_detected_at_both_ends_of_the_range(dtype: str, place: int) -> None:
    reference = checked(dtype, np.array(extremes(dtype), dtype))
    wrong = reference.copy()
    wrong[place] = wrong[place] ^ 1 if dtype == "bool" else wrong[place - 1 if place % 2 else place + 1]
    found = distance(wrong, reference)
    assert (found.max_abs, found.squares) == (1.0, 1.0)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize(("max_abs", "refused"), [(0.0, 3), (0.2, 3), (0.25, 1), (0.5, 0), (None, 0)])
def test_fractional_expected_outputs_that_no_integer_output_can_match_are_refused(
    dtype: str, max_abs: float | None, refused: int
) -> None:
    values = [0.25, 0.5, 0.75, 1.0]
    tolerance = Tolerance(rel_l2=0.5, max_abs=max_abs, max_abs_ratio=4.0 if max_abs is None else None)
    output = replace(operand(dtype), tolerance=tolerance)
    if not refused:
        assert check_reference(output, values, case="nominal", maker=MAKER).tolist() == values
        return
    reason = f"{refused} of 4 elements are farther from every integer than max_abs = .* round the values as the kernel"
    with pytest.raises(FamilyError, match=reason):
        check_reference(output, values, case="nominal", maker=MAKER)


@pytest.mark.parametrize("dtype", LARGE)
@pytest.mark.parametrize("power", [52, 53, 54, 60, 62])
@pytest.mark.parametrize("off", [-1, 0, 1, 2, 3])
def test_errors_of_large_integer_outputs_are_exact(dtype: str, power: int, off: int) -> None:
    reference = np.full(5, 1 << power, dtype)
    values = reference.copy()
    values[3] += np.array(off).astype(dtype)
    assert distance(values, checked_5(dtype, reference)).max_abs == abs(off)


def checked_5(dtype: str, made: Any) -> Any:
    return check_reference(operand(dtype, 5), made, case="nominal", maker=MAKER)


@pytest.mark.parametrize(
    ("output", "made", "rel_l2", "refused"),
    [
        ("float32", np.float16, 1e-5, True),
        ("float64", np.float32, 1e-9, True),
        ("float32", np.float16, 1e-3, False),
        ("float32", np.float16, 0.0, False),
        ("float16", np.float16, 1e-6, False),
        ("float64", np.float32, 1e-6, False),
    ],
    ids=[
        "float16 for float32",
        "float32 for float64",
        "loose tolerance",
        "only copies are correct",
        "same dtype",
        "rounding below the tolerance",
    ],
)
def test_reference_dtype_with_rounding_above_the_tolerance_is_refused(
    output: str, made: Any, rel_l2: float, refused: bool
) -> None:
    asked = replace(operand(output), tolerance=Tolerance(rel_l2=rel_l2, max_abs=1.0))
    values = np.array([1.0, 2.0, 3.0, 4.0], made)
    expected = (
        pytest.raises(FamilyError, match=r"rounded by about .*; compute in float64") if refused else nullcontext()
    )
    with expected:
        check_reference(asked, values, case="nominal", maker=MAKER)


def test_largest_integer_difference_is_not_rounded_down() -> None:
    values, reference = np.full(3, -(1 << 63), np.int64), np.full(3, (1 << 63) - 1, np.int64)
    assert distance(values, reference).max_abs >= (1 << 64) - 1
    unsigned = distance(np.full(3, (1 << 53) + 1, np.uint64), np.zeros(3, np.uint64))
    assert unsigned.max_abs > 1 << 53


def test_bool_output_is_stored_in_one_byte_with_the_value_0_or_1() -> None:
    reference = checked("bool", np.array([True, True, False, False]))
    values = np.array([1, 255, 0, 2], np.uint8).view(bool)
    assert distance(values, reference).max_abs == 254.0


@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_floats_are_accepted_as_expected_integers(dtype: str) -> None:
    reference = checked(dtype, np.array([0.0, 1.0, 1.0, 0.0]))
    assert reference.dtype == stored(dtype)


def test_distance_of_an_integer_output_uses_the_unrounded_expected_output() -> None:
    output = replace(operand("int8"), tolerance=Tolerance(rel_l2=0.5, max_abs=0.5))
    reference = check_reference(output, np.array([-2.5, 0.0, 2.25, 127.0]), case="nominal", maker=MAKER)
    found = distance(np.array([-2, 0, 2, 127], np.int8), reference)
    assert found.max_abs == 0.5
    assert found.squares == 0.5**2 + 0.25**2


@pytest.mark.parametrize(
    ("dtype", "made", "reason"),
    [
        ("int64", [0.0, 2.0**53, 0, 0], r"1 of 4 elements are 2\^53 or more.*return integers, e\.g\. of int64"),
        ("uint64", [0.0, 0.0, 2.0**63, 2.0**60], r"2 of 4 elements are 2\^53 or more"),
        ("int32", [0.0, np.nan, 0, np.inf], "2 of 4 elements are NaN or infinite, which integers cannot be"),
        (
            "uint8",
            [0, 256, -1, 3],
            r"2 of 4 elements are outside the range of uint8 \(0 to 255\); the first is 256 at \[1\]",
        ),
        ("int8", [0, 0, 0, -129], r"outside the range of int8 \(-128 to 127\)"),
        ("uint64", [0, -1, 0, 0], "outside the range of uint64"),
        ("int64", np.array([0, 1 << 63, 0, 0], np.uint64), "outside the range of int64"),
        (
            "uint64",
            [1 << 64, 0, 0, 0],
            r"1 of 4 .* outside the range of uint64.*first is 18446744073709551616 at",
        ),
        ("int64", [0, 0, -(1 << 63) - 1, 1], "outside the range of int64"),
        ("bool", [0, 1 << 80, 0, 0], r"outside the range of bool \(0 to 1\)"),
        ("bool", [0, 1, 2, 0], r"outside the range of bool \(0 to 1\)"),
        ("float32", [0, np.nan, 0, 0], r"1 of 4 elements are NaN or infinite.*the first is nan at \[1\]"),
        ("float64", [np.inf, -np.inf, 0, 0], r"2 of 4 elements are NaN or infinite.*the first is inf at \[0\]"),
        ("float16", [0, 0, 0, 65520.0], "1 of 4 elements are outside .* float16, so a kernel would write infinity"),
        ("bfloat16", [0, 3.4e38, 3.395e38, 0], "elements are outside the range of bfloat16"),
        ("float32", [0, 3.5e38, 0, 1.0], "outside the range of float32"),
        ("float64", [0, 1e200, 0, 1.0], "contains a value of magnitude 1e\\+200"),
        ("float64", [0, 1e-200, 0, 0], "contains a value of magnitude 1e-200"),
        (
            "float32",
            [0, 1, 2],
            r"has shape \(3,\); family\.toml declares \(4,\)\. If the inputs determine its length, declare",
        ),
        ("float32", [0, 1, 2, 3, 4], r"has shape \(5,\); family\.toml declares \(4,\)$"),
        ("float32", [[0, 1, 2, 3]], r"has shape \(1, 4\); family\.toml declares \(4,\)"),
        ("float32", 1.0, r"has shape \(\); family\.toml declares \(4,\)"),
        ("float32", [1j, 0, 0, 0], "has dtype complex128; return real numbers"),
        ("float32", ["a", "b", "c", "d"], "return real numbers"),
        ("float32", [None] * 4, "has dtype object; return real numbers"),
        ("float32", np.ma.masked_invalid([1.0, np.nan, 2.0, 3.0]), "is a masked array"),
    ],
)
def test_reference_value_outside_the_output_dtype_raises_a_family_error(dtype: str, made: Any, reason: str) -> None:
    with pytest.raises(FamilyError, match=reason) as refused:
        checked(dtype, made)
    assert str(refused.value).startswith("reference.py, reference(): `y`")


@pytest.mark.parametrize("dtype", FLOATS)
def test_outputs_of_floating_dtypes_are_compared_in_float64(dtype: str) -> None:
    reference = checked(dtype, np.array([0.0, 1.5, -2.0, 1e-3], np.float32))
    assert reference.dtype == np.float64
    values = encoded(reference, dtype)
    assert distance(values, reference, dtype).max_abs <= 1e-3


@pytest.mark.parametrize("dtype", ["float8_e4m3", "float8_e5m2"])
def test_saturating_formats_accept_expected_outputs_beyond_their_range(dtype: str) -> None:
    assert checked(dtype, [1e6, 0, 0, -1e6])[0] == 1e6


@pytest.mark.parametrize(
    "made",
    [
        np.array([(1 << 64) - 1, 0, 1, (1 << 60) + 1], dtype=object),
        [1, (1 << 63) + 1, 0, 3],  # NumPy would convert these integers to floats
        ((1 << 64) - 1, 0, np.int64(1), (1 << 60) + 1),
        [np.uint64((1 << 63) + 1), np.int64(1), np.int64((1 << 60) + 1), 0],
    ],
)
def test_python_integers_returned_by_a_reference_keep_all_digits(made: Any) -> None:
    assert checked("uint64", made).tolist() == [int(each) for each in made]


def test_reference_may_be_a_list_of_numbers() -> None:
    assert checked("float32", [1, 2.5, 0, 3]).tolist() == [1.0, 2.5, 0.0, 3.0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_inputs_are_converted_to_native_byte_order(dtype: str) -> None:
    wanted = operand(dtype, role="input")
    codes = np.ones(8, stored(dtype))[::2]
    taken = check_input(wanted, codes, case="nominal", maker="reference.py, inputs()")
    assert (taken.dtype, taken.flags.c_contiguous) == (stored(dtype), True)
    swapped = codes.astype(codes.dtype.newbyteorder())
    assert check_input(wanted, swapped, case="nominal", maker="m").tobytes() == taken.tobytes()


@pytest.mark.parametrize(
    ("dtype", "made", "reason"),
    [
        ("float32", np.zeros(4), r"returns `y` of case tail as float64 \(4,\); family\.toml declares float32 \(4,\)"),
        ("float32", np.zeros(5, np.float32), r"as float32 \(5,\); family\.toml declares float32 \(4,\)"),
        ("float32", [1.0, 2.0, 3.0, 4.0], "as float64"),
        ("int32", np.zeros(4, np.int64), r"as int64 \(4,\); family\.toml declares int32"),
        ("uint8", np.zeros(4, bool), "as bool"),
        (
            "bfloat16",
            np.zeros(4, np.float32),
            r"the codes of bfloat16: evo\.reference\.encoding\.encoded",
        ),
    ],
)
def test_inputs_must_match_their_declaration(dtype: str, made: Any, reason: str) -> None:
    with pytest.raises(FamilyError, match=reason):
        check_input(operand(dtype, role="input"), made, case="tail", maker="reference.py, inputs()")


def test_error_names_missing_or_undeclared_arrays_and_the_remedy() -> None:
    declared = [operand("float32", role="input")]
    with pytest.raises(FamilyError, match=r"inputs\(\) must return the input `y` for case tail, but returned only `z`"):
        check_names({"z": np.zeros(1)}, declared, ["input"], case="tail", maker="reference.py, inputs()")
    extra = {"y": np.zeros(1), "z": np.zeros(1)}
    with pytest.raises(
        FamilyError, match=r'returns `z` .* declares no input `z`\. .* \[\[arguments\]\] with role = "input"'
    ):
        check_names(extra, declared, ["input"], case="tail", maker="reference.py, inputs()")
    with pytest.raises(FamilyError, match=r"reference\(\): returns `z` .*declares no output `z`"):
        check_names(extra, [operand("float32")], ["output"], case="tail", maker=MAKER)


def test_bool_bytes_reach_a_kernel_as_0_and_1() -> None:
    made = np.array([0, 2, 255, 1], np.uint8).view(bool)
    taken = check_input(operand("bool", role="input"), made, case="nominal", maker="reference.py, inputs()")
    assert taken.view(np.uint8).tolist() == [0, 1, 1, 1]
    assert checked("bool", made).view(np.uint8).tolist() == [0, 1, 1, 1]


def test_fortran_ordered_inputs_keep_their_indices() -> None:
    made = np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    taken = check_input(operand("float32", 2, 3, role="input"), made, case="nominal", maker="m")
    assert taken.ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert taken.flags.c_contiguous


class Tensor:
    """A fake PyTorch tensor on a GPU that requires a gradient. A reference may return such tensors."""

    __module__ = "torch"

    def __init__(self, values: np.ndarray[Any, Any], dtype: str = "torch.float32") -> None:
        self._values, self.dtype = values, dtype

    def float(self) -> "Tensor":
        return Tensor(self._values)

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """Return the values. PyTorch needs ``force`` to detach a tensor and to copy a tensor from a GPU."""
        assert force, "the tensor is on a GPU and requires a gradient"
        assert self.dtype == "torch.float32", "NumPy does not have this dtype"
        return self._values


class Subclass(Tensor):
    """A fake subclass of PyTorch's tensor that reference.py defines."""

    __module__ = "reference"


class DeviceArray:
    """A fake CuPy array. A reference may return such arrays, which NumPy cannot convert."""

    __module__ = "cupy._core.core"

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = values

    def get(self) -> np.ndarray[Any, Any]:
        return self._values


@pytest.mark.parametrize(
    "wrap",
    [
        Tensor,
        Subclass,
        lambda values: Tensor(values, "torch.bfloat16"),
        lambda values: Tensor(values, "torch.float8_e4m3fn"),
        DeviceArray,
    ],
)
def test_expected_outputs_from_gpu_libraries_are_copied_to_the_host(wrap: Any) -> None:
    values = np.arange(4, dtype=np.float32)
    assert checked("float32", wrap(values)).tolist() == [0, 1, 2, 3]
