"""Template filters that format numbers and names."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from markupsafe import Markup, escape

from api.web.content import rule_figures
from evo.messages.view.champion import decision_text, rules_text
from evo.messages.worker_state import progress_text
from evo.promotion.rules.profile import profile_rows
from evo.text import wording

SIGNS: Mapping[str, str] = {
    "measured": "✓",
    "estimated": "≈",
    "pruned": "↘",
    "pending": "…",
    "abandoned": "?",
    "reference_failed": "?",
    "cancelled": "–",
}
"""Symbols in the badges of outcomes, for readers who cannot distinguish colours. Outcomes not listed are failures."""

TONES: Mapping[str, str] = {
    "measured": "good",
    "estimated": "accent",
    "pruned": "warn",
    "pending": "accent",
    "abandoned": "quiet",
    "reference_failed": "warn",
    "cancelled": "quiet",
}


def sign(kind: str) -> str:
    return SIGNS.get(kind, "✕")


def coded(text: str) -> Markup:
    """Return text from a report as HTML. Text between backticks is marked up as code."""
    parts = (Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in _pieces(text))
    return Markup("").join(parts)


def _pieces(text: str) -> Iterable[tuple[int, str]]:
    return enumerate(text.split("`")) if text.count("`") % 2 == 0 else enumerate([text])


def tone(kind: str) -> str:
    """Return the colour name of an outcome: `good`, `warn`, `accent`, `quiet`, or `bad` for a failure."""
    return TONES.get(kind, "bad")


def moment(at: datetime | None) -> str:
    """Format a time as ``2026-03-01 12:30:05 UTC``; None gives a dash."""
    return "–" if at is None else at.strftime("%Y-%m-%d %H:%M:%S UTC")


def share(fraction: float | None) -> str:
    """Format a share of the roofline limit; None gives a dash. For a share above 1, a tooltip states the reason."""
    text, reason = wording.percent_text(fraction), wording.over_limit_text(fraction)
    return Markup('<abbr title="{}">{}</abbr>').format(reason, text) if reason else text


def count(number: int) -> str:
    return f"{number:,}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "time": wording.time_text,
    "limit_words": wording.limit_words,
    "under_way": progress_text,
    "decision": decision_text,
    "rules_met": rules_text,
    "coded": coded,
    "duration": wording.duration_text,
    "factor": wording.factor_text,
    "distinct": wording.distinct,
    "processes": wording.processes_text,
    "percent": wording.percent_text,
    "share": share,
    "over_limit": wording.over_limit_text,
    "profile_rows": profile_rows,
    "figure": wording.significant,
    "settings": wording.settings_text,
    "spaced": wording.spaced_text,
    "value": wording.value_text,
    "outcome": wording.outcome_text,
    "origin": wording.origin_text,
    "bound": wording.bound_text,
    "sign": sign,
    "tone": tone,
    "figure_of": rule_figures.figure_text,
    "figure_words": rule_figures.figure_words,
    "threshold_of": rule_figures.threshold_text,
    "threshold_words": rule_figures.threshold_words,
    "moment": moment,
    "count": count,
    "counted": wording.count_text,
}
