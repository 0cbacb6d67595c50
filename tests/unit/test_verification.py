"""A family's ``verify()`` function must return a supported value, and must refuse wrong outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from evo.errors import InvalidInput
from evo.family import Family, Operand
from evo.family.argument import Tolerance
from tests.unit.family_document import document
from workers.measure.family.expected_output import FamilyError
from workers.measure.family.verification import Verification
from workers.runner.protocol import CasePlan

ORDER = Operand(name="order", role="output", dtype="int32", shape=(4,), verified=True)
RIGHT = {"order": np.array([3, 1, 0, 2], np.int32)}


def verification(function: Callable[..., Any], *operands: Operand) -> Verification:
    plan = CasePlan(name="ties", distribution="any", problem={"N": 4}, seeds=((1,),), operands=operands or (ORDER,))
    return Verification(function=function, maker="reference.py, verify()", plan=plan, inputs={"keys": np.arange(4)})


def permutation(problem: Any, inputs: Any, outputs: Any) -> str | None:
    return None if sorted(outputs["order"]) == list(range(problem["N"])) else "no permutation"


@pytest.mark.parametrize("said", [None, True, np.bool_(True)])
def test_verify_function_that_returns_none_or_true_accepts_the_outputs(said: object) -> None:
    assert verification(lambda *_: said)(RIGHT) is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("keys descend at 3", "verify() refuses the outputs: keys descend at 3"),
        (False, "verify() refuses the outputs"),
        (np.bool_(False), "verify() refuses the outputs"),
    ],
)
def test_verify_function_that_returns_text_or_false_refuses_the_outputs(said: object, reason: str) -> None:
    assert verification(lambda *_: said)(RIGHT) == reason


@pytest.mark.parametrize("said", [1, 0, [], np.zeros(2)])
def test_unsupported_return_value_of_verify_raises_a_family_error(said: object) -> None:
    with pytest.raises(FamilyError, match="return None for correct outputs"):
        verification(lambda *_: said)(RIGHT)


def test_exception_in_verify_counts_as_a_wrong_output() -> None:
    def fails(*_: object) -> None:
        raise FamilyError("reference.py, verify() (line 3): IndexError: index 9 is out of bounds")

    assert "IndexError" in str(verification(fails)(RIGHT))


def test_verify_function_gets_copies_of_inputs_and_outputs() -> None:
    def changes(problem: Any, inputs: Any, outputs: Any) -> None:
        inputs["keys"][:] = 9
        outputs["order"][:] = 9

    checked = verification(changes)
    checked(RIGHT)
    assert RIGHT["order"].tolist() == [3, 1, 0, 2]
    assert checked.inputs["keys"].tolist() == [0, 1, 2, 3]


def test_verify_function_that_accepts_zeros_raises_a_family_error() -> None:
    verification(permutation).check_refuses()
    with pytest.raises(FamilyError, match=r"accepts outputs of zeros .* it would accept every kernel"):
        verification(lambda *_: None).check_refuses()


def test_verify_function_also_gets_outputs_with_a_tolerance() -> None:
    count = Operand(name="count", role="output", dtype="float32", shape=(), tolerance=Tolerance(rel_l2=0, max_abs=0))
    seen: list[list[str]] = []
    checked = verification(lambda _, __, outputs: seen.append(sorted(outputs)) or "no", ORDER, count)
    checked.check_refuses()
    assert seen == [["count", "order"]] * len(seen)


def test_output_with_the_verified_key_needs_no_tolerance() -> None:
    made = document()
    out = made["arguments"][3]
    del out["rel_l2"], out["max_abs_ratio"]
    with pytest.raises(InvalidInput, match="rel_l2: is missing"):
        Family.from_document(made)
    out["verified"] = True
    family = Family.from_document(made)
    (operand,) = [each for each in family.operands(family.problem("")) if each.verified]
    assert (operand.name, operand.tolerance) == ("out", None)


def test_verified_key_is_refused_for_an_input_argument() -> None:
    made = document()
    made["arguments"][0]["verified"] = True
    with pytest.raises(InvalidInput, match=r"arguments\[0\]\.verified"):
        Family.from_document(made)
