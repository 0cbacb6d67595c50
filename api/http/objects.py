"""Validates objects in request bodies. If a value is not an object, the error shows a corrected value or an example."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from evo.device.requirements import Requirements, parse_toolkit
from evo.errors import InvalidInput
from evo.messages.view.metric import Metric
from evo.search.search import Budget
from evo.text.limits import MOST, units
from evo.text.suggestion import numbers_meant, unknown
from evo.trial import Value
from evo.trial.objective import Objective


def _one_value(given: object) -> object:
    """Return the value of a field, after checking that it is not a list, an object or null."""
    if isinstance(given, list | dict | None):
        kind = "a list" if isinstance(given, list) else "an object" if isinstance(given, dict) else "null"
        first = given[0] if isinstance(given, list) and given else 1
        example = f", e.g. {json.dumps(first)}" if isinstance(first, int | float | bool) else ""
        several = "; send a request for each value" if isinstance(given, list) and len(given) > 1 else ""
        reason = f"is {kind}; send one value: a number, true, false, or a string in quotes{example}{several}"
        raise PydanticCustomError("one_value", "{reason}", {"reason": reason})
    return given


def policy_terms(given: object) -> object:
    """Return the policy of a request, after checking that it is a name or an object."""
    return _text_or_object(given, "a name", '"default" or {"minimum_gain": 0.05}')


def problem_terms(given: object) -> object:
    """Return the problem of a request, after checking that it is a string or an object."""
    return _text_or_object(given, "a string", '"S=512" or {"S": 512}')


def _text_or_object(given: object, what: str, example: str) -> object:
    if isinstance(given, str | dict):
        return given
    raise PydanticCustomError("no_object", "{reason}", {"reason": f"must be an object or {what}, e.g. {example}"})


def _object_of(
    kind: type, example: Mapping[str, object], read: Callable[[str], object] = lambda _: None
) -> BeforeValidator:
    """Return a validator that refuses values other than objects, and unknown fields, which Pydantic would ignore.

    Args:
        kind: dataclass with the known fields.
        example: a valid object.
        read: function that converts a string to the object that the client probably meant, or returns None.
    """
    known = get_type_hints(kind, include_extras=True)
    words = {word: name for name, hint in known.items() if get_origin(hint) is Literal for word in get_args(hint)}

    def check(value: Any) -> Any:
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            text = value if isinstance(value, str) else ""
            meant = (
                {words[text]: text} if text in words else None if isinstance(value, list | dict) else read(str(value))
            )
            raise no_object(value, meant, example)
        for name in value:
            if name not in known:
                raise InvalidInput(str(name), unknown(str(name), known, "fields"))
        return value

    return BeforeValidator(check)


def no_object(value: object, meant: object, example: object) -> PydanticCustomError:
    """Return the error for a value that is not an object. It suggests `meant`, or `example` if `meant` is None."""
    if meant is None and isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        meant = value[0]
    written = f", e.g. {json.dumps(example)}" if meant is None else f"; write {json.dumps(meant, ensure_ascii=False)}"
    return PydanticCustomError("no_object", "{reason}", {"reason": f"must be an object{written:.200}"})


def _objective_meant(text: str) -> object:
    """Parse an objective from a string such as ``maximise: gflop_s``. Return None for other strings."""
    try:
        metric = Metric.parse(text, "objective") if ":" in text else None
    except InvalidInput:
        return None
    return None if metric is None else {"metric": metric.text, "direction": metric.direction}


def _budget_meant(text: str) -> object:
    """Parse a budget from a string such as ``5m``, ``100`` or ``100 trials``. Return None for other strings."""
    if (found := re.fullmatch(r"\s*([1-9]\d{0,8})\s*(?:trials?|configs?|evaluations?)?\s*", text)) is not None:
        return {"trials": int(found[1])}
    minutes = numbers_meant(text, units(("minutes",)))
    return {"minutes": minutes[0]} if len(minutes) == 1 and 0 < minutes[0] <= MOST else None


def _requirements_meant(text: str) -> object:
    """Parse requirements from a string such as ``24GB`` or ``cuda>=12.4``. Return None for other strings."""
    try:
        return {"toolkit": dict([parse_toolkit(text)])}
    except InvalidInput:
        memory = numbers_meant(text, units(("memory_gb",)))
    return {"memory_gb": memory[0]} if memory and memory[0] > 0 else None


OneValue = Annotated[Value, BeforeValidator(_one_value)]
GivenObjective = Annotated[Objective, _object_of(Objective, {"cache": "cold"}, _objective_meant)]
GivenBudget = Annotated[Budget, _object_of(Budget, {"trials": 100}, _budget_meant)]
GivenRequirements = Annotated[Requirements, _object_of(Requirements, {"memory_gb": 24}, _requirements_meant)]
