"""Trials as files: CSV, one JSON document, or NDJSON; written piece by piece."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from db.models.columns import adapter
from evo.messages.view import TrialView
from evo.promotion.statistics import CONFIDENCE, order_interval
from evo.space import Tunable
from evo.text.wording import value_text
from evo.trial.explain import detail_text, first_lines
from evo.trial.outcome import Estimated, Measured
from evo.trial.timing import Timing

FIGURES = ("registers", "shared_memory_bytes", "spill_bytes", "stack_bytes", "occupancy")
BEFORE = ("search", "number", "outcome", "time_us", "low_us", "high_us", "source", "quick_us", "estimate_us")
AFTER = (*FIGURES, "origin", "parents", "suspect", "overhead_ms", "delivery_ms", "asked_at", "finished_at", "reason")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Characters at the start of a cell that make a spreadsheet evaluate it."""


def as_csv(tunables: Sequence[Tunable], trials: Iterable[TrialView]) -> Iterator[str]:
    """Yield a header line, then a line for each trial. The interval is the 95 % interval of the median.

    A confirmed time leads, `source` says so, and `quick_us` is always that of the quick samples. Measured and
    estimated times have separate columns, so that they are not mixed up.
    """
    names = [tunable.name for tunable in tunables]
    yield _line([*BEFORE, *names, *AFTER])
    for trial in trials:
        yield _line([*_before(trial), *(_cell(trial.config.get(name)) for name in names), *_after(trial)])


def as_json(tunables: Sequence[Tunable], trials: Iterable[TrialView]) -> Iterator[str]:
    """Yield one array of trials as the REST API shows them."""
    yield "["
    for place, trial in enumerate(trials):
        yield ("," if place else "") + "\n" + _document(trial)
    yield "\n]\n"


def as_ndjson(tunables: Sequence[Tunable], trials: Iterable[TrialView]) -> Iterator[str]:
    """Yield one trial per line as the REST API shows it."""
    for trial in trials:
        yield _document(trial) + "\n"


def _document(trial: TrialView) -> str:
    return adapter(TrialView).dump_json(trial).decode()


def _line(cells: Sequence[object]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(["" if cell is None else cell for cell in cells])
    return line.getvalue()


def _before(trial: TrialView) -> list[object]:
    timing = getattr(trial.outcome, "timing", None)
    kind = "pending" if trial.outcome is None else trial.outcome.kind
    named = [trial.search_id, trial.number, kind]
    if isinstance(trial.outcome, Estimated):
        return [*named, None, None, None, trial.source, None, trial.outcome.time_us]
    if trial.time_us is None or not isinstance(timing, Timing):
        return [*named, *[None] * 6]
    quick = order_interval(timing.samples_us, CONFIDENCE)
    interval = quick if trial.confirmed is None else trial.confirmed.time
    return [*named, trial.time_us, interval.low, interval.high, trial.source, timing.median_us, None]


def _after(trial: TrialView) -> list[object]:
    outcome = trial.outcome
    resources = outcome.resources if isinstance(outcome, Measured | Estimated) else {}
    reason = "" if outcome is None or isinstance(outcome, Measured) else first_lines(detail_text(outcome), 1)
    return [
        *(resources.get(name) for name in FIGURES),
        _cell(trial.origin),
        " ".join(map(str, trial.parents)),
        _cell(trial.suspect),
        trial.overhead_ms,
        trial.delivery_ms,
        *(None if at is None else at.isoformat() for at in (trial.asked_at, trial.finished_at)),
        _cell(reason.partition("\n")[0]),
    ]


def _cell(value: bool | int | float | str | None) -> object:
    """Escape users' text so that it never runs as a formula."""
    if isinstance(value, bool):
        return value_text(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
