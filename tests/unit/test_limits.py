"""Errors about a value out of range state the accepted range, in every interface."""

import json
import re
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, FiniteFloat, TypeAdapter, ValidationError

from evo.errors import InvalidInput
from evo.text.limits import accepted, refuse_invisible, refused


@pytest.mark.parametrize(
    ("shape", "given", "said"),
    [
        (Annotated[int, Field(ge=1)], 0, "0 is out of range; accepted: 1 and more, e.g. 1"),
        (Annotated[float, Field(gt=0, le=30)], 31, "31 is out of range; accepted: 30 and less, e.g. 30"),
        (Annotated[float, Field(gt=0)], "-1.5", "-1.5 is out of range; accepted: above 0, e.g. 1"),
        (int, "1.5", "'1.5' is not a whole number, e.g. 1"),
        (int, 1.5, "1.5 is not a whole number, e.g. 1"),
        (int, 1e300, "1e+300 is out of range"),
        (FiniteFloat, float("inf"), "inf is not a finite number, e.g. 1"),
        (FiniteFloat, "1e999", "'1e999' is not a finite number, e.g. 1"),
        (int, [], "[] is not a whole number, e.g. 1"),
        (int, None, "null is not a whole number, e.g. 1"),
        (Annotated[int, Field(strict=True)], "5", "'5' is a string; leave the quotes out"),
        (Annotated[bool, Field(strict=True)], "true", "'true' is a string; leave the quotes out"),
        (Annotated[int, Field(strict=True)], "high", "'high' is not a whole number, e.g. 1"),
        (Annotated[float, Field(strict=True)], "high", "'high' is not a number, e.g. 1"),
        (Annotated[bool, Field(strict=True)], "yes", "must be true or false; write true"),
        (Annotated[bool, Field(strict=True)], "maybe", "must be true or false, e.g. true"),
        (
            Annotated[int, Field(le=2**63 - 1)],
            2**70,
            f"{2**70} is out of range; accepted: {2**63 - 1:,} and less, e.g. {2**63 - 1}",
        ),
        (list[str], "admin", 'must be a list; write ["admin"]'),
        (list[int], 0, "must be a list; write [0]"),
        (list[dict[str, int]], {"W": 1}, 'must be a list; write [{"W": 1}]'),
        (list[str], None, "must be a list"),
        (str, 12, 'must be a string, in quotes; write "12"'),
        (str, ["tpe"], 'must be a string, in quotes; write "tpe"'),
        (str, ["tpe", "random"], "must be a string, in quotes"),
        (dict[str, int], [{"W": 1}], 'must be an object: fields and values in braces; write {"W": 1}'),
        (float, "x" * 50, f"'{'x' * 40}…' is not a number, e.g. 1"),
        (Literal["a", "b"], "c", "'c' is not one of 'a' or 'b'"),
        (Annotated[str, Field(min_length=1)], "", "is empty"),
        (Annotated[str, Field(min_length=16)], "secret", "has 6 characters, which are too few; use 16 or more"),
        (Annotated[str, Field(max_length=2)], "abc", "has more than 2 characters"),
        (dict[str, int], 3, "must be an object: fields and values in braces"),
        (Annotated[list[int], Field(min_length=1)], [], "has too few entries; use 1 or more"),
        (complex, "x", None),
    ],
)
def test_validation_error_states_the_accepted_range(shape: Any, given: object, said: str | None) -> None:
    with pytest.raises(ValidationError) as wrong:
        TypeAdapter(shape).validate_python(given)
    assert refused(wrong.value.errors()[0]) == said
    if (example := re.search(r"(?:e\.g\.|write) (\S.*)$", said or "")) is not None:
        TypeAdapter(shape).validate_python(json.loads(example[1]))


def test_integer_with_too_many_digits_is_out_of_range() -> None:
    with pytest.raises(ValidationError) as wrong:
        TypeAdapter(int).validate_python("9" * 5000)
    assert refused(wrong.value.errors()[0]) == f"{'9' * 40}… is out of range"


def test_accepted_range_in_an_error_is_formatted_with_thousands_separators() -> None:
    assert accepted(0.01, 10**9) == "0.01 … 1,000,000,000"
    assert accepted(1, None) == accepted(1, 2**63 - 1) == "1 and more"
    assert accepted(None, 5) == "5 and less"
    assert accepted(None, None) == ""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a\nroot  admin", "a\\nroot  admin"),
        ("tab\tbed", "tab\\tbed"),
        ("\x1b[2J", "\\x1b[2J"),
        ("abc\u202ecba", "abc\\u202ecba"),
        ("two\u2028lines", "two\\u2028lines"),
        ("\r", "\\r"),
    ],
)
def test_error_about_a_name_with_invisible_characters_shows_their_escapes(name: str, shown: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        refuse_invisible("name", name)
    assert (refusal.value.field, shown in refusal.value.reason) == ("name", True)


@pytest.mark.parametrize("name", ["Łukasz", "名前", "a b", "x\\ny", "🙂", ""])
def test_name_without_invisible_characters_is_accepted(name: str) -> None:
    assert refuse_invisible("name", name) == name
