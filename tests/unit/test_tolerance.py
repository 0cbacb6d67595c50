"""Tolerances that no wrong output could exceed are refused, with the field and a remedy."""

import re

import numpy as np
import pytest

from evo.device import Device
from evo.errors import InvalidInput
from evo.family import DTYPES, Family
from templates.registry import find
from tests.unit.family_document import CPU, document


def family(**tolerance: object) -> Family:
    made = document()
    (output,) = [each for each in made["arguments"] if each["role"] == "output"]
    for name in ("rel_l2", "max_abs", "max_abs_ratio"):
        output.pop(name, None)
    output.update(tolerance)
    return Family.from_document(made)


@pytest.mark.parametrize("rel_l2", [1, 1.0, 2, "1", "0.5 + 0.5", "2 ** 3", 1e300])
def test_relative_tolerance_that_accepts_zeros_is_refused(rel_l2: object) -> None:
    with pytest.raises(InvalidInput, match=r"must be below 1, the error of an output of zeros") as refused:
        family(rel_l2=rel_l2, max_abs=0.0)
    assert refused.value.field == "family.toml: arguments[3].rel_l2"
    assert "1e-5 for float32" in refused.value.reason


@pytest.mark.parametrize("name", ["rel_l2", "max_abs", "max_abs_ratio"])
@pytest.mark.parametrize("value", [-1, -1e-9, float("nan"), float("inf"), "1e308 * 1e308", "0.0 - 1"])
def test_infinite_or_negative_tolerance_is_refused(name: str, value: object) -> None:
    given = {"rel_l2": 1e-6, "max_abs": 0.0} if name != "max_abs_ratio" else {"rel_l2": 1e-6}
    with pytest.raises(InvalidInput) as refused:
        family(**{**given, name: value})
    assert f"arguments[3].{name}" in refused.value.field


@pytest.mark.parametrize("rel_l2", [0, 0.0, 1e-7, 0.5, "0.25 * 2"])
def test_relative_tolerance_below_1_is_accepted(rel_l2: object) -> None:
    assert family(rel_l2=rel_l2, max_abs=1e6)


def test_tolerance_that_depends_on_the_problem_is_checked_on_problem_and_cases() -> None:
    device: Device = CPU
    searched = family(rel_l2="1e-6 if COLS < 2048 else 1.5", max_abs_ratio=2)
    searched.check_device(searched.problem("COLS=1024", "cpu"), device)
    with pytest.raises(InvalidInput, match=r"rel_l2: .* evaluates to 1.5, but must be below 1"):
        searched.check_device(searched.problem("COLS=4096", "cpu"), device)
    of_a_case = family(rel_l2="1e-6 if COLS > 17 else 1.0", max_abs_ratio=2)
    with pytest.raises(InvalidInput, match=r"rel_l2: .* evaluates to 1.0, but must be below 1"):
        of_a_case.check_device(of_a_case.problem("COLS=1024", "cpu"), device)


@pytest.mark.parametrize("dtype", DTYPES)
def test_output_of_every_dtype_may_be_declared(dtype: str) -> None:
    made = document()
    (output,) = [each for each in made["arguments"] if each["role"] == "output"]
    output["dtype"] = dtype
    declared = Family.from_document(made)
    (operand,) = [each for each in declared.operands(declared.problem("", "cpu")) if each.role == "output"]
    assert operand.dtype == dtype


def test_softmax_tolerance_permits_the_largest_error_of_its_exp2_polynomial() -> None:
    """An element and the total of its row may have errors of opposite sign."""
    softmax = find("softmax").family
    (degree,) = (each for each in softmax.implementation("cpu").tunables if each.name == "EXP_DEGREE")
    (stated,) = re.findall(r"relative error (\S+) or", degree.help)
    (out,) = (each for each in softmax.operands(softmax.problem("rows=256,cols=512", "cpu")) if each.name == "out")
    assert out.tolerance is not None and out.tolerance.max_abs_ratio is not None
    assert 2 * float(stated) < out.tolerance.max_abs_ratio * np.finfo(np.float32).eps
    assert 2 * float(stated) < out.tolerance.rel_l2
