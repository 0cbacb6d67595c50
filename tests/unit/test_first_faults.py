"""Bodies with many faults: validation ends at the first fault of a collection, because each costs kilobytes."""

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


def test_validation_of_each_collection_ends_at_the_first_fault() -> None:
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
def test_thousands_of_faults_give_few_errors(body: type[Body], given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        body.model_validate(given)
    assert 1 <= refused.value.error_count() <= 60


def test_few_unknown_fields_are_named_individually() -> None:
    with pytest.raises(ValidationError) as refused:
        SearchRequest.model_validate({"family": "a", "budgt": 1, "sead": 2})
    assert [error["loc"] for error in refused.value.errors()] == [("budgt",), ("sead",)]
