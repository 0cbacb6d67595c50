"""Validation stops at the first fault of a list or object, so error responses stay small."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from api import schemas
from api.schemas import Body, Heartbeat, Results, SearchRequest, WorkerBody

MANY = 5_000
RESULT = {"attempt_id": 1, "token": "t"}
OUTCOME = {"kind": "measured", "timing": {"samples_us": [1.0]}}


def evaluate(**outcome: Any) -> dict[str, Any]:
    return {"results": [{**RESULT, "report": {"kind": "evaluate", "outcome": {**OUTCOME, **outcome}}}]}


def bodies() -> list[type[Body]]:
    found = [each for each in vars(schemas).values() if isinstance(each, type) and issubclass(each, Body)]
    assert len(found) > 10
    return found


def collections(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple", "set", "frozenset", "dict"):
            yield schema
        for part in schema.values():
            yield from collections(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from collections(part)


def test_validation_of_lists_and_objects_in_requests_stops_at_the_first_error() -> None:
    found = [(body, each) for body in bodies() for each in collections(body.__pydantic_core_schema__)]
    assert len(found) > 50
    assert [(body.__name__, each) for body, each in found if not each.get("fail_fast")] == []


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (Results, evaluate(timing={"samples_us": ["x"] * MANY})),
        (Results, evaluate(cases=["x"] * MANY)),
        (Results, evaluate(resources={f"n{number}": "x" for number in range(MANY)})),
        (Results, {"results": [{**RESULT, "report": {"kind": "confirm", "repeats": [1] * MANY}}]}),
        (
            Results,
            {"results": [{**RESULT, "report": {"kind": "baseline", "timings": {str(n): 1 for n in range(MANY)}}}]},
        ),
        (Results, {"results": [{}] * 200}),
        (Results, {"results": [], "contents": {str(number): "x" for number in range(MANY)}}),
        (WorkerBody, {"host": "h", "devices": [{"kind": "cpu", "limits": {str(n): "x" for n in range(MANY)}}]}),
        (Heartbeat, {"attempts": ["x"] * MANY, "slots": ["x"] * MANY}),
        (SearchRequest, {"family": "a", "warm_start": {"source": "s", "configs": [{"a": []}] * MANY}}),
        (SearchRequest, {f"n{number}": 1 for number in range(MANY)}),
    ],
)
def test_request_body_with_thousands_of_faults_gives_few_errors(body: type[Body], given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        body.model_validate(given)
    assert 1 <= refused.value.error_count() <= 60


def test_all_unknown_fields_of_a_request_are_reported_if_they_are_few() -> None:
    with pytest.raises(ValidationError) as refused:
        SearchRequest.model_validate({"family": "a", "budgt": 1, "sead": 2})
    assert [error["loc"] for error in refused.value.errors()] == [("budgt",), ("sead",)]


def numbers(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the parts of a schema that accept numbers or booleans, except integers that a function checks first."""
    if isinstance(schema, dict):
        if schema.get("type") in ("int", "float", "bool"):
            yield schema
        checked = schema.get("type") == "function-before" and schema["schema"].get("type") == "int"
        for part in () if checked else schema.values():
            yield from numbers(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from numbers(part)


def test_every_number_in_a_request_body_is_validated_strictly() -> None:
    found = [(body.__name__, each) for body in bodies() for each in numbers(body.__pydantic_core_schema__)]
    assert len(found) > 20
    assert [each for each in found if not each[1].get("strict")] == []


@pytest.mark.parametrize(
    ("body", "given", "field"),
    [
        (SearchRequest, {"family": "a", "seed": "5"}, ("seed",)),
        (SearchRequest, {"family": "a", "seed": True}, ("seed",)),
        (SearchRequest, {"family": "a", "budget": {"trials": "5"}}, ("budget", "trials")),
        (SearchRequest, {"family": "a", "budget": {"minutes": "5"}}, ("budget", "minutes")),
        (SearchRequest, {"family": "a", "budget": {"minutes": True}}, ("budget", "minutes")),
        (SearchRequest, {"family": "a", "from_default": 1}, ("from_default",)),
        (SearchRequest, {"family": "a", "from_default": "yes"}, ("from_default",)),
        (Heartbeat, {"attempts": ["1"]}, ("attempts", 0)),
    ],
)
def test_text_or_boolean_instead_of_a_number_in_a_request_is_refused(
    body: type[Body], given: dict[str, Any], field: tuple[str, ...]
) -> None:
    with pytest.raises(ValidationError) as refused:
        body.model_validate(given)
    assert [each["loc"] for each in refused.value.errors()] == [field]


def test_whole_json_floats_are_accepted_as_integers() -> None:
    asked = SearchRequest.model_validate({"family": "a", "seed": 5.0, "budget": {"trials": 5.0, "minutes": 3}})
    assert (asked.seed, asked.budget.trials, asked.budget.minutes) == (5, 5, 3.0)
