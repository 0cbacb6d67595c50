"""Text search in trials: in number, config, origin, outcome and reason.

The search applies to the text that pages show, not to the stored form. Times in a reason are not searched, because
they are computed from samples when a page shows them.
"""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, Boolean, ColumnElement, String, and_, case, cast, func, literal, or_, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from db.models import TrialRow

NUMBER = re.compile(r"(?:trial|#)?\s*([0-9]{1,9})", re.IGNORECASE)
BETWEEN = re.compile(r"[\s=:,]+")

FIXED_TEXTS: Mapping[str, tuple[str, ...]] = {
    "pruned": ("stopped after", "samples at", "the slowest elite's time × the prune_ratio"),
    "impossible": ("but the work takes", "at least: it did not do it"),
    "over_resources": ("of at most",),
    "timed_out": ("the", "stage ran past"),
    "crashed": ("while in",),
    "abandoned": ("lost with its worker", "times"),
}
"""Fixed text in the explanation of an outcome (`evo.trial.explain`), by kind."""

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
"""Text fields of an outcome, by kind."""


def mentions(text: str) -> ColumnElement[bool]:
    """Return the condition that a trial mentions a text; a number also matches the trial's number."""
    found = [_in_proposal(text), occurs(_spaced(text), func.replace(TrialRow.outcome_kind, "_", " ")), _in_reason(text)]
    if (number := NUMBER.fullmatch(text)) is not None:
        found.append(TrialRow.number == int(number[1]))
    return or_(*found)


def _spaced(kind: str) -> str:
    """Return an outcome kind as pages show it: ``compile_failed`` as ``compile failed``."""
    return kind.replace("_", " ") if kind.strip("_") else kind


def _in_proposal(text: str) -> ColumnElement[bool]:
    """Return the condition that the config or the origin of a trial mentions a text.

    The stored document is searched first, which rules out most trials cheaply.
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
    """``text LIKE pattern``, ignoring case. It avoids lower(), which would copy every text."""

    inherit_cache = True
    type = Boolean()


def occurs(part: str, text: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that `text` contains `part`, without wildcards and ignoring case."""
    plain = "".join(ESCAPE + each if each in (ESCAPE, "%", "_") else each for each in part)
    return Occurs(text, literal(f"%{plain}%"))


@compiles(Occurs)
def _anywhere(element: Occurs, compiler: SQLCompiler, **given: Any) -> str:
    return _with("ILIKE", element, compiler, **given)


@compiles(Occurs, "sqlite")
def _in_sqlite(element: Occurs, compiler: SQLCompiler, **given: Any) -> str:
    return _with("LIKE", element, compiler, **given)


def _with(operator: str, element: Occurs, compiler: SQLCompiler, **given: Any) -> str:
    text, pattern = (compiler.process(each, **given) for each in element.clauses)
    return f"({text} {operator} {pattern} ESCAPE '{ESCAPE}')"
