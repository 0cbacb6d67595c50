"""Problem fields may be floating-point numbers or names."""

from typing import Any

import pytest

from evo.errors import InvalidInput
from evo.family import Family
from evo.family.problem import problem_key
from tests.unit.family_document import document


def family(**field: Any) -> Family:
    made = document()
    made["problem"]["extra"] = field
    return Family.from_document(made)


EPSILON = {"type": "float", "default": 1e-5, "min": 0, "max": 1}


@pytest.mark.parametrize(
    ("given", "value"), [("1e-6", 1e-6), ("0", 0.0), (".5", 0.5), (1, 1.0), (0.25, 0.25), (" 1e-3 ", 1e-3)]
)
def test_float_fields_of_a_problem_accept_text_and_numbers(given: object, value: float) -> None:
    found = family(**EPSILON).problem({"extra": given})["extra"]
    assert (found, type(found)) == (value, float)


@pytest.mark.parametrize("given", ["nan", "inf", "x", "", True, None, [1], "-0.1", "1.5", 2, 10**400, "1e999"])
def test_error_for_an_invalid_number_in_a_problem_states_the_accepted_range(given: object) -> None:
    with pytest.raises(InvalidInput, match="accepted: 0 … 1") as refused:
        family(**EPSILON).problem({"extra": given})
    assert refused.value.field == "problem.extra"


@pytest.mark.parametrize("value", [1e-5, 0.1, 1.0, 3e-9])
def test_problem_key_with_a_float_is_parsed_back(value: float) -> None:
    found = family(**EPSILON)
    problem = found.problem({"extra": value})
    assert found.problem(problem_key(problem)) == problem


def test_float_fields_may_be_used_in_expressions() -> None:
    made = document()
    made["problem"]["extra"] = dict(EPSILON)
    made["arguments"][1]["value"] = "2 * extra"
    made["arguments"][3]["rel_l2"] = "10 * extra"
    found = Family.from_document(made)
    operands = found.operands(found.problem(""))
    assert next(each.tolerance for each in operands if each.name == "out").rel_l2 == pytest.approx(1e-4)


@pytest.mark.parametrize("given", ["gelu", "_x9"])
def test_text_fields_of_a_problem_accept_identifiers(given: str) -> None:
    assert family(type="text", default="relu").problem({"extra": given})["extra"] == given


@pytest.mark.parametrize("given", ["a b", "9", "a" * 65, "a-b", "", 7, 'x"', "a\n#define N 1"])
def test_text_fields_of_a_problem_refuse_values_that_are_not_identifiers(given: object) -> None:
    said = "a word of letters, digits and underscores that does not begin with a digit, 64 characters at most"
    with pytest.raises(InvalidInput, match=said):
        family(type="text", default="relu").problem({"extra": given})


def test_minimum_and_maximum_of_a_field_must_be_numbers() -> None:
    with pytest.raises(InvalidInput, match=r"problem\.extra\.min: must be a number"):
        family(type="float", min="0")
    with pytest.raises(InvalidInput, match=r"problem\.extra\.max: must be a number of at most 308 digits"):
        family(type="float", default=0.5, max=10**400)
