"""Suite: weighted problems of one or more families, read from a TOML document."""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from evo.errors import InvalidInput
from evo.family.problem import problem_key
from evo.text.assignments import lengths_of
from evo.text.document import literal_text
from evo.text.limits import MOST
from evo.text.suggestion import unknown
from evo.text.wording import value_text
from evo.trial import Value

Goal: TypeAlias = Literal["ratio", "time", "worst"]

MOST_CALLS = 500
"""Maximum number of calls in a suite, after ranges are expanded."""

_FIELDS = ("name", "family", "problem", "weight")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@=-]{0,99}")


@dataclass(frozen=True, kw_only=True)
class Call:
    """One problem of a suite.

    Attributes:
        family: name of the family, or path of its folder.
        problem: values of the given problem fields; other fields have their defaults.
        weight: number of calls of this problem in the workload that the suite represents.
    """

    name: str
    family: str
    problem: Mapping[str, Value]
    weight: float = 1.0

    @property
    def text(self) -> str:
        """The problem as an argument of a command, e.g. ``B=1,H=8``."""
        return problem_key(self.problem)


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Problems that are tuned together.

    Attributes:
        goal: determines which search gets the next slice of the budget. ``ratio``: the search with the largest expected
            relative gain, multiplied by the weight, so long and short calls matter equally. ``time``: the search with
            the largest expected gain in µs, multiplied by the weight, so long calls matter more. ``worst``: like
            ``ratio`` without weights; in addition, sets of configs are selected by the largest slowdown of a call
            instead of the mean.
        source: name of the suite or path of its file, for commands.
    """

    name: str
    calls: tuple[Call, ...]
    goal: Goal = "ratio"
    source: str = ""

    def of_family(self, family: str) -> "Suite":
        """Return the suite with only the calls of one family.

        Raises:
            InvalidInput: the suite has no call of this family.
        """
        kept = tuple(call for call in self.calls if call.family == family)
        if not kept:
            families = sorted({call.family for call in self.calls})
            raise InvalidInput("FAMILY", f"suite {self.name}: {unknown(family, families, 'families')}")
        return replace(self, calls=kept)


def suite_from(document: Mapping[str, Any], name: str, source: str = "") -> Suite:
    """Return the suite described by a document.

    Args:
        document: ``goal``, and a list ``call`` of tables with name, family, problem and weight. A problem field may
            have a list of values, or a range of lengths (``"1..4096"``), which is replaced by a few lengths, see
            `lengths_of`. Each combination of values is then a separate call, with an equal part of the weight.

    Raises:
        InvalidInput: a key or value of the document is not accepted. The message states the key and what is accepted.
    """
    for key in document:
        if key not in ("goal", "call"):
            raise InvalidInput(key, unknown(key, ("goal", "call"), "keys of a suite"))
    goal = document.get("goal", "ratio")
    if goal not in get_args(Goal):
        raise InvalidInput("goal", f"must be one of {', '.join(get_args(Goal))}, not {literal_text(goal, 60)}")
    listed = document.get("call")
    if not isinstance(listed, list) or not listed:
        raise InvalidInput("call", "a suite must have at least one [[call]] table with name, family and problem")
    calls = list(itertools.islice(_calls(listed), MOST_CALLS + 1))
    if len(calls) > MOST_CALLS:
        raise InvalidInput("call", f"the suite expands to more than {MOST_CALLS} problems")
    names = [call.name for call in calls]
    for each in names:
        if names.count(each) > 1:
            raise InvalidInput("call", f"two calls are named {each}; rename one")
    return Suite(name=name, calls=tuple(calls), goal=goal, source=source or name)


def _calls(listed: list[Any]) -> Iterator[Call]:
    for index, table in enumerate(listed):
        where = f"call[{index}]"
        if not isinstance(table, Mapping):
            raise InvalidInput(where, "must be a table; write [[call]] above name, family and problem")
        yield from _expanded(table, where)


def _expanded(table: Mapping[str, Any], where: str) -> Iterator[Call]:
    for key in table:
        if key not in _FIELDS:
            raise InvalidInput(f"{where}.{key}", unknown(str(key), _FIELDS, "fields of a call"))
    name, family = (_text(table, key, where) for key in ("name", "family"))
    if _NAME.fullmatch(name) is None:
        accepted = "use up to 100 letters, digits and . _ - + @ =, with a letter or digit first"
        raise InvalidInput(f"{where}.name", f"{name!r:.60} is not a valid name; {accepted}")
    problem, weight = table.get("problem", {}), table.get("weight", 1)
    if not isinstance(problem, Mapping):
        raise InvalidInput(f"{where}.problem", "must be a table, e.g. { rows = 1024, cols = 4096 }")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= MOST:
        raise InvalidInput(
            f"{where}.weight", f"must be a number above 0, up to {MOST:,}, not {literal_text(weight, 60)}"
        )
    choices = [_values(value, f"{where}.problem.{field}") for field, value in problem.items()]
    several = [field for field, values in zip(problem, choices, strict=True) if len(values) > 1]
    combinations = list(itertools.islice(itertools.product(*choices), MOST_CALLS + 1))
    for combination in combinations:
        chosen = dict(zip(problem, combination, strict=True))
        suffix = "".join(f"-{field}{value_text(chosen[field])}" for field in several)
        yield Call(name=name + suffix, family=family, problem=chosen, weight=weight / len(combinations))


def _text(table: Mapping[str, Any], key: str, where: str) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise InvalidInput(f"{where}.{key}", f"must be a string, not {literal_text(value, 60)}")
    if not value.strip():
        raise InvalidInput(f"{where}.{key}", "is missing or empty; each call must have a name and a family")
    return value.strip()


def _values(entry: Any, where: str) -> list[Value]:
    """Return the distinct values of a problem field. `entry` is one value, or a list of values.

    A range such as ``"1..4096"`` is replaced by a few lengths from 1 to 4096 (see `lengths_of`).
    """
    found: list[Value] = []
    for each in entry if isinstance(entry, list) else [entry]:
        if not isinstance(each, bool | int | float | str):
            raise InvalidInput(where, f"must be a number, a word, true or false, not {literal_text(each, 60)}")
        lengths = lengths_of(each, where) if isinstance(each, str) else None
        found += [each] if lengths is None else lengths
    if not found:
        raise InvalidInput(where, "has no value; set one, or omit the field")
    return list(dict.fromkeys(found))
