"""Filters, sort orders and text search of trials, as SQL expressions.

The text search finds texts as pages show them, even if their stored form differs. Times in the reasons of outcomes are
not searched, because pages compute them from samples.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from sqlalchemy import (
    JSON,
    Boolean,
    ColumnElement,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    type_coerce,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from db.models import ChampionRow, TrialRow
from evo.trial import Value

Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Key: TypeAlias = Literal["rank", "number", "ended", "outcome", "origin", "overhead"]
KEYS: tuple[Key, ...] = ("rank", "number", "ended", "outcome", "origin", "overhead")
RANKED: tuple[str, ...] = ("estimated", "measured")
"""Outcomes of ranked trials. All ranked trials of one search have the same outcome: measured or estimated."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Condition on a tunable.

    ``=`` accepts any of `values`, and ``!=`` accepts any value that is not in `values`. All other operators use only
    the first value.
    """

    tunable: str
    operator: Operator
    values: tuple[Value, ...]


@dataclass(frozen=True, kw_only=True)
class Order:
    """Sort order of trials, by a tunable or by one of `KEYS`, such as the number of the trial.

    Attributes:
        key: name of the tunable, or one of `KEYS` if `values` is empty.
        values: all values of the tunable. Empty if trials are sorted by a key.
    """

    key: str = "rank"
    descending: bool = False
    values: tuple[Value, ...] = ()

    @property
    def sample(self) -> Value | None:
        """One value of the tunable, which shows the type of all values. None if the order uses a key."""
        return self.values[0] if self.values else None

    @property
    def texts(self) -> bool:
        """True if the order compares strings, which database engines sort differently."""
        return self.key in ("outcome", "origin") or isinstance(self.sample, str)

    @property
    def foremost(self) -> Value | None:
        """Value of the tunable that sorts first.

        None if the order uses a key, or if the values are strings, whose order depends on the database.
        """
        numbers = [value for value in self.values if not isinstance(value, str)]
        if not numbers:
            return None
        return max(numbers) if self.descending else min(numbers)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Searches whose trials are shown, with filters and sort order.

    Attributes:
        outcomes: outcome kinds or ``pending``. If empty, all outcomes are shown.
        text: text that the page of a trial must contain, ignoring case. If empty, all trials are shown.
    """

    searches: tuple[int, ...]
    outcomes: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()
    text: str = ""
    order: Order = field(default_factory=Order)

    @property
    def plain(self) -> bool:
        """True if the list contains all ranked trials, best first, so that the position of a trial is its rank."""
        order = self.order.key == "rank" and not self.order.descending
        return order and set(self.outcomes) <= set(RANKED) and not self.conditions and not self.text


def key_of(order: Order) -> ColumnElement[Any]:
    if order.sample is not None:
        return _setting(order.key, order.sample)
    columns: dict[str, ColumnElement[Any]] = {
        "rank": TrialRow.cost.expression,
        "number": TrialRow.number.expression,
        "ended": TrialRow.finished_seq.expression,
        "outcome": TrialRow.outcome_kind.expression,
        "origin": _proposal()["origin"].as_string(),
        "overhead": TrialRow.overhead_ms.expression,
    }
    return columns[order.key]


def groups_of(selection: Selection) -> tuple[ColumnElement[bool], ...]:
    """Return the SQL condition of each group of trials in a list, in the order of the groups.

    In a ranking, the first group is the current champion, because paired measurements show that it is faster than its
    rivals. Confirmed trials follow, then trials with only quick samples. The first trial is thus the best trial of the
    search (`Archive.best`). All other lists have a single group.
    """
    if selection.order.key != "rank":
        return (true(),)
    current = ChampionRow.current & ChampionRow.search_id.in_(selection.searches)
    champion = TrialRow.id.in_(select(ChampionRow.trial_id).where(current))
    confirmed = TrialRow.quick_us.is_not(None)
    return champion, and_(confirmed, not_(champion)), and_(not_(confirmed), not_(champion))


def group_of(selection: Selection) -> ColumnElement[int]:
    """Return the SQL expression for the index of a trial's group in `groups_of`."""
    groups = groups_of(selection)
    return case(*((each, index) for index, each in enumerate(groups)), else_=len(groups))


def conditions_of(selection: Selection) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [TrialRow.search_id.in_(selection.searches)]
    if len(selection.searches) == 1:
        found = [TrialRow.search_id == selection.searches[0]]
    if selection.outcomes:
        found.append(_of_outcome(selection.outcomes))
    found += [_meets(condition) for condition in selection.conditions]
    if selection.text:
        found.append(mentions(selection.text))
    return found


def _of_outcome(outcomes: Sequence[str]) -> ColumnElement[bool]:
    ended = TrialRow.outcome_kind.in_([kind for kind in outcomes if kind != "pending"])
    return or_(ended, TrialRow.outcome_kind.is_(None)) if "pending" in outcomes else ended


def _meets(condition: Condition) -> ColumnElement[bool]:
    setting, first = _setting(condition.tunable, condition.values[0]), condition.values[0]
    match condition.operator:
        case "=":
            return or_(*(setting == value for value in condition.values))
        case "!=":
            return and_(*(setting != value for value in condition.values))
        case "<":
            return setting < first
        case "<=":
            return setting <= first
        case ">":
            return setting > first
        case ">=":
            return setting >= first


def _setting(tunable: str, sample: Value) -> ColumnElement[Any]:
    """Return the SQL expression for the value of a tunable, cast to the type of `sample`."""
    value = _proposal()[("config", tunable)]
    typed: ColumnElement[Any] = value.as_string() if isinstance(sample, str) else value.as_float()
    return value.as_boolean() if isinstance(sample, bool) else typed


def _proposal() -> Any:
    return type_coerce(TrialRow.proposal, JSON)


NUMBER = re.compile(r"(?:trial|#)?\s*([0-9]{1,9})", re.IGNORECASE)
BETWEEN = re.compile(r"[\s=:,]+")

FIXED_TEXTS: Mapping[str, tuple[str, ...]] = {
    "pruned": ("stopped after", "samples at", "the slowest elite's time × the"),
    "impossible": ("but the problem takes at least", "so the kernel did not compute everything"),
    "over_resources": ("of at most",),
    "timed_out": ("the", "stage exceeded"),
    "crashed": ("during",),
    "abandoned": ("its worker was lost", "times"),
}
"""Constant parts of the explanation of an outcome (`evo.trial.explain`), by kind."""

TEXT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "compile_failed": ("log",),
    "invalid_config": ("reason",),
    "launch_failed": ("reason",),
    "wrong_answer": ("reason",),
    "invalid_measurement": ("reason",),
    "over_resources": ("resource",),
    "timed_out": ("stage",),
    "crashed": ("stage", "reason"),
}
"""Text fields of an outcome (`evo.trial.outcome`), by kind."""


def mentions(text: str) -> ColumnElement[bool]:
    """Return the condition that the page of a trial contains a string.

    A number also matches the trial with this number.
    """
    found = [_in_proposal(text), occurs(_spaced(text), func.replace(TrialRow.outcome_kind, "_", " ")), _in_reason(text)]
    if (number := NUMBER.fullmatch(text)) is not None:
        found.append(TrialRow.number == int(number[1]))
    return or_(*found)


def _spaced(kind: str) -> str:
    """Return an outcome kind as it appears on pages: ``compile_failed`` becomes ``compile failed``."""
    return kind.replace("_", " ") if kind.strip("_") else kind


def _in_proposal(text: str) -> ColumnElement[bool]:
    """Return the condition that a string occurs in the config of a trial, or in the name of its origin.

    The stored JSON document is searched first, which quickly excludes most trials.
    """
    document = type_coerce(TrialRow.proposal, JSON)
    pieces = [piece for piece in BETWEEN.split(text) if piece]
    likely = and_(*(occurs(piece, cast(document, String)) for piece in pieces))
    settings: ColumnElement[Any] = func.replace(document["config"].as_string(), '":', " ")
    for mark, shown in (('"', ""), ("{", ""), ("}", ""), (",", " "), ("  ", " ")):
        settings = func.replace(settings, mark, shown)
    return and_(likely, or_(occurs(text, document["origin"].as_string()), occurs(" ".join(pieces), settings)))


def _in_reason(text: str) -> ColumnElement[bool]:
    document, kind = type_coerce(TrialRow.outcome, JSON), TrialRow.outcome_kind
    fixed = [name for name, words in FIXED_TEXTS.items() if any(text.lower() in each for each in words)]
    own = case(*((kind == name, _joined(document, fields)) for name, fields in TEXT_FIELDS.items()), else_="")
    return or_(kind.in_(fixed), occurs(text, own))


def _joined(document: Any, fields: tuple[str, ...]) -> ColumnElement[str]:
    texts = [document[name].as_string() for name in fields]
    joined: ColumnElement[str] = texts[0] if len(texts) == 1 else texts[0].concat(": ").concat(texts[1])
    return joined


ESCAPE = "/"


class Occurs(FunctionElement[bool]):
    """SQL expression ``text LIKE pattern`` that ignores case.

    It is faster than a comparison of lower(), which copies every text.
    """

    inherit_cache = True
    type = Boolean()


def occurs(part: str, text: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that `text` contains `part`, ignoring case. ``%`` and ``_`` are not wildcards."""
    plain = "".join(ESCAPE + each if each in (ESCAPE, "%", "_") else each for each in part)
    return Occurs(text, literal(f"%{plain}%"))


@compiles(Occurs)
def _anywhere(element: Occurs, compiler: SQLCompiler, **options: Any) -> str:
    return _with("ILIKE", element, compiler, **options)


@compiles(Occurs, "sqlite")
def _in_sqlite(element: Occurs, compiler: SQLCompiler, **options: Any) -> str:
    return _with("LIKE", element, compiler, **options)


def _with(operator: str, element: Occurs, compiler: SQLCompiler, **options: Any) -> str:
    text, pattern = (compiler.process(each, **options) for each in element.clauses)
    return f"({text} {operator} {pattern} ESCAPE '{ESCAPE}')"
