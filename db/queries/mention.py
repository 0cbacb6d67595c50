"""Whether a trial mentions a text: in its number, its settings, who proposed it, how it ended, and why.

A text is looked for in what pages show, not in how it is stored. Times within a reason are not looked for: they are
worked out of samples when they are shown.
"""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import JSON, ColumnElement, String, and_, case, cast, func, or_, type_coerce

from db.models import TrialRow
from db.queries.matching import occurs

NUMBER = re.compile(r"(?:trial|#)?\s*([0-9]{1,9})", re.IGNORECASE)
BETWEEN = re.compile(r"[\s=:,]+")

SAID: Mapping[str, tuple[str, ...]] = {
    "pruned": ("stopped after", "samples at", "the slowest elite's time × the prune_ratio"),
    "impossible": ("but the work takes", "at least: it did not do it"),
    "over_resources": ("of at most",),
    "timed_out": ("the", "stage ran past"),
    "crashed": ("while in",),
    "abandoned": ("lost with its worker", "times"),
}
"""What is always said of such an outcome (`evo.trial.explain`)."""

TOLD: Mapping[str, tuple[str, ...]] = {
    "compile_failed": ("log",),
    "invalid_config": ("reason",),
    "launch_failed": ("reason",),
    "wrong_answer": ("reason",),
    "invalid_measurement": ("reason",),
    "over_resources": ("resource",),
    "timed_out": ("stage",),
    "crashed": ("stage", "reason"),
}
"""What an outcome itself tells in words."""


def mentions(text: str) -> ColumnElement[bool]:
    """The condition; a number is that of the trial, too."""
    found = [_in_proposal(text), occurs(_spaced(text), func.replace(TrialRow.outcome_kind, "_", " ")), _in_reason(text)]
    if (number := NUMBER.fullmatch(text)) is not None:
        found.append(TrialRow.number == int(number[1]))
    return or_(*found)


def _spaced(kind: str) -> str:
    """``compile_failed`` as it is shown."""
    return kind.replace("_", " ") if kind.strip("_") else kind


def _in_proposal(text: str) -> ColumnElement[bool]:
    """In the settings, or in the name of who proposed them.

    The stored document is looked through first: of most trials nothing more has to be read.
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
    said = [name for name, words in SAID.items() if any(text.lower() in each for each in words)]
    told = case(*((kind == name, _joined(document, fields)) for name, fields in TOLD.items()), else_="")
    return or_(kind.in_(said), occurs(text, told))


def _joined(document: Any, fields: tuple[str, ...]) -> ColumnElement[str]:
    texts = [document[name].as_string() for name in fields]
    joined: ColumnElement[str] = texts[0] if len(texts) == 1 else texts[0].concat(": ").concat(texts[1])
    return joined
