"""Problems are parsed from texts and mappings and get defaults; errors name the invalid field."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evo.errors import InvalidInput
from evo.family.problem import Field, parse_problem, problem_key
from evo.text.assignments import MAX_FIELDS, split_assignments, split_shapes

FIELDS = (
    Field(name="B", type="int", default=1, min=1, max=64),
    Field(name="S", type="int", min=1, max=4096),
    Field(name="offset", type="int", default=0),
    Field(name="causal", type="bool", default=False),
    Field(name="dtype", type="choice", choices=("float32", "float16"), default="float32"),
)


def test_problem_text_and_mapping_are_equivalent() -> None:
    expected = {"B": 1, "S": 256, "offset": -3, "causal": True, "dtype": "float32"}
    assert parse_problem(FIELDS, " causal=true, offset = -3 ,S=256,") == expected
    assert parse_problem(FIELDS, {"causal": True, "S": 256, "offset": "-3"}) == expected
    assert list(parse_problem(FIELDS, "S=1,B=2")) == [field.name for field in FIELDS]


@pytest.mark.parametrize("text", ["S=256,,B=1", ",S=256", "S=256,,"])
def test_empty_assignment_in_a_problem_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="problem: has an empty assignment"):
        parse_problem(FIELDS, text)
    with pytest.raises(InvalidInput, match="problem: has an empty assignment"):
        split_shapes(text)


def test_passed_defaults_override_field_defaults_of_a_problem() -> None:
    assert parse_problem(FIELDS, "", {"S": 8, "dtype": "float16"})["dtype"] == "float16"
    assert parse_problem(FIELDS, "dtype=float32", {"S": 8, "dtype": "float16"})["dtype"] == "float32"


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ("S=1,s=2", "problem.s", "there is no `s`; did you mean `S`"),
        ("S=1,heads=2", "problem.heads", "Fields: B, S, causal, dtype, offset"),
        ("S=1,S=2", "problem.S", "given twice"),
        ("B=1", "problem.S", "missing and has no default; accepted: 1 … 4096"),
        ("S=0", "problem.S", "out of range; accepted: 1 … 4096"),
        ("S=5000", "problem.S", "out of range"),
        ("S=1.5", "problem.S", "not a whole number"),
        ("S=1e3", "problem.S", "not a whole number"),
        ("S=" + "9" * 30, "problem.S", "a number of 20 digits or more is out of range; accepted: 1 … 4096"),
        ("S=" + "9" * 1900, "problem.S", "out of range"),
        ({"S": "9" * 9000}, "problem.S", "out of range"),
        ({"S": 10**30}, "problem.S", "out of range"),
        ("S=٣", "problem.S", "not a whole number"),
        ("S", "problem", "NAME=VALUE"),
        ("S=", "problem", "NAME=VALUE"),
        ("=4", "problem", "NAME=VALUE"),
        ("S=1,offset=9223372036854775808", "problem.offset", "accepted: -4611686018427387903 … 4611686018427387903"),
        ({"S": 1, "offset": 1 << 62}, "problem.offset", "accepted: -4611686018427387903 … 4611686018427387903"),
        ("S=1,causal=maybe", "problem.causal", "neither true nor false"),
        ("S=1,dtype=float8", "problem.dtype", "not one of float32, float16"),
        ("S=1," * 1000, "problem", "characters long"),
        ({"S": True}, "problem.S", "not a whole number"),
        ({"S": 256.0}, "problem.S", "not a whole number"),
        ({"S": None}, "problem.S", "not a whole number"),
        ({"S": [1]}, "problem.S", "not a whole number"),
        ({"S": 1, "causal": 1}, "problem.causal", "neither true nor false"),
        ({"S": 1, "causal": None}, "problem.causal", "neither true nor false"),
        ({"S": 1, "dtype": 32}, "problem.dtype", "not one of"),
        ({"S": 1, 7: 1}, "problem.7", "there is no `7`"),
    ],
)
def test_invalid_problem_names_the_field_and_its_valid_values(given: Any, field: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        parse_problem(FIELDS, given)
    assert raised.value.field == field
    assert reason in raised.value.reason


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        (Field(name="n", type="int", min=1), 1 << 63, "1 … 4611686018427387903"),
        (Field(name="n", type="int", max=9), 10, "-4611686018427387903 … 9"),
        (Field(name="x", type="float", min=0.5), 1e30, "0.5 … 4.611686018427388e+18"),
    ],
)
def test_error_for_a_number_out_of_range_states_both_limits(field: Field, value: float, accepted: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        field.parse(value, "n")
    reason, _, example = raised.value.reason.partition(", e.g. ")
    assert reason.endswith(f"out of range; accepted: {accepted}")
    assert field.parse(example, "n") == field.example


@given(
    problem=st.fixed_dictionaries(
        {
            "B": st.integers(1, 64),
            "S": st.integers(1, 4096),
            "offset": st.integers(1 - (1 << 62), (1 << 62) - 1),
            "causal": st.booleans(),
            "dtype": st.sampled_from(["float32", "float16"]),
        }
    )
)
def test_problem_key_is_parsed_back_to_the_problem(problem: dict[str, Any]) -> None:
    assert parse_problem(FIELDS, problem_key(problem)) == problem


def test_problem_key_does_not_depend_on_the_spelling_of_the_problem() -> None:
    key = problem_key(parse_problem(FIELDS, "causal=YES,S=007"))
    assert key == "B=1,S=7,offset=0,causal=true,dtype=float32"
    assert problem_key({}) == ""


@pytest.mark.parametrize(
    ("field", "accepts"),
    [
        (Field(name="n", type="int"), "a whole number"),
        (Field(name="n", type="int", min=1), "1 …"),
        (Field(name="n", type="int", max=9), "… 9"),
        (Field(name="n", type="int", min=1, max=9), "1 … 9"),
        (Field(name="n", type="bool"), "true or false"),
        (Field(name="n", type="choice", choices=("a", "b")), "a, b"),
    ],
)
def test_problem_field_describes_its_valid_values(field: Field, accepts: str) -> None:
    assert field.accepts == accepts


def test_problem_text_with_several_values_gives_several_problems() -> None:
    assert split_shapes("") == [""]
    assert split_shapes("B=2, S=128") == ["B=2,S=128"]
    assert split_shapes("S=128,128,256") == ["S=128", "S=256"]
    assert split_shapes("B=2,S=128, 256,causal=true,false") == [
        "B=2,S=128,causal=true",
        "B=2,S=128,causal=false",
        "B=2,S=256,causal=true",
        "B=2,S=256,causal=false",
    ]
    assert split_shapes("256") == ["256"]
    with pytest.raises(InvalidInput, match="problem: describes 101 problems"):
        split_shapes("A=" + ",".join(map(str, range(101))))


def test_problem_text_with_too_many_fields_is_refused() -> None:
    text = ",".join(f"a{number}=1" for number in range(MAX_FIELDS))
    assert len(split_assignments(text, "problem")) == MAX_FIELDS
    with pytest.raises(InvalidInput, match="problem: names 101 fields; at most 100 are accepted"):
        split_assignments(f"{text},b=1", "problem")


@pytest.mark.parametrize("text", ["B=2;S=64", "B=2 ; S=64", "B=2 S=64", "B=2\tS=64"])
@pytest.mark.parametrize("split", [lambda text: split_assignments(text, "problem"), split_shapes])
def test_error_about_assignments_without_a_comma_shows_the_corrected_text(text: str, split: Any) -> None:
    with pytest.raises(InvalidInput, match=r"must have a comma between its parts; write `B=2,S=64`"):
        split(text)
    assert split_assignments("B=a b; c, S = 64", "problem") == {"B": "a b; c", "S": "64"}
