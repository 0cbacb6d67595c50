"""Downloads of the selected trials as CSV, JSON or NDJSON, streamed while the trials are read."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fastapi.responses import StreamingResponse

from api.views import trial_views
from db.engine.session import Database
from db.models.columns import adapter
from db.queries.leaderboard import Leaderboard, PagePosition
from db.queries.selection import Selection
from evo.messages.view import TrialView
from evo.promotion.statistics import CONFIDENCE, order_interval
from evo.space import Tunable
from evo.text.wording import value_text
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import Estimated, Measured
from evo.trial.timing import Timing

FIGURES = ("registers", "shared_memory_bytes", "spill_bytes", "stack_bytes", "occupancy")
BEFORE = (
    "search",
    "number",
    "outcome",
    "time_us",
    "low_us",
    "high_us",
    "source",
    "quick_us",
    "estimate_us",
    "cost",
    "second_cost",
)
AFTER = (*FIGURES, "origin", "parents", "suspect", "overhead_ms", "delivery_ms", "asked_at", "finished_at", "reason")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters that make a spreadsheet evaluate a cell as a formula."""


def as_csv(tunables: Sequence[Tunable], trials: Iterable[TrialView]) -> Iterator[str]:
    """Yield a header line, and a line for each trial.

    `time_us` is the confirmed time if there is one, else the quick time. `low_us` and `high_us` are the limits of the
    95 % confidence interval for this time. `quick_us` is always the quick time. Estimated times are only in
    `estimate_us`. `source` is the source of the time, e.g. ``quick``, ``confirmed`` or ``estimated``. Cells without a
    value are empty.
    """
    names = [tunable.name for tunable in tunables]
    yield _line([*BEFORE, *names, *AFTER])
    for trial in trials:
        yield _line([*_before(trial), *(_cell(trial.config.get(name)) for name in names), *_after(trial)])


def as_json(tunables: Sequence[Tunable], trials: Iterable[TrialView]) -> Iterator[str]:
    """Yield the parts of one JSON array of trials, in the form of the REST API."""
    yield "["
    for index, trial in enumerate(trials):
        yield ("," if index else "") + "\n" + _document(trial)
    yield "\n]\n"


def as_ndjson(tunables: Sequence[Tunable], trials: Iterable[TrialView]) -> Iterator[str]:
    """Yield one line of JSON per trial in the form of the REST API."""
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
        return [*named, None, None, None, trial.source, None, trial.outcome.time_us, trial.cost, trial.second_cost]
    if trial.time_us is None or not isinstance(timing, Timing):
        return [*named, *[None] * 8]
    quick = order_interval(timing.samples_us, CONFIDENCE)
    interval = (None if trial.confirmed is None else trial.confirmed.time) or quick
    times = [trial.time_us, interval.low, interval.high, trial.source, timing.median_us, None]
    return [*named, *times, trial.cost, trial.second_cost]


def _after(trial: TrialView) -> list[object]:
    outcome = trial.outcome
    resources = outcome.resources if isinstance(outcome, Measured | Estimated) else {}
    reason = "" if outcome is None or isinstance(outcome, Measured) else headline(detail_text(outcome))
    return [
        *(resources.get(name) for name in FIGURES),
        _cell(trial.origin),
        " ".join(map(str, trial.parents)),
        _cell(trial.suspect),
        trial.overhead_ms,
        trial.delivery_ms,
        *(None if at is None else at.isoformat() for at in (trial.asked_at, trial.finished_at)),
        _cell(reason),
    ]


def _cell(value: bool | int | float | str | None) -> object:
    """Return the value of a cell, escaped so that a spreadsheet never evaluates it as a formula."""
    if isinstance(value, bool):
        return value_text(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value


BATCH = 500
"""Number of trials per transaction, so that no transaction stays open for minutes."""

PIECE = 64 << 10
"""Minimum number of characters per chunk of a download."""

Writer = Callable[[Sequence[Tunable], Iterator[TrialView]], Iterator[str]]
FORMATS: Mapping[str, tuple[Writer, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "json": (as_json, "application/json"),
    "ndjson": (as_ndjson, "application/x-ndjson"),
}
"""Writer and media type by format."""


def download(
    database: Database, tunables: Sequence[Tunable], selection: Selection, *, form: str, name: str
) -> StreamingResponse:
    """Return the selected trials as a file in one of the `FORMATS`."""
    writer, media_type = FORMATS[form]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"', "X-Content-Type-Options": "nosniff"}
    trials = _every(database, selection, reported=form != "csv")  # tables omit the files of attempts
    pieces = in_pieces(writer(tunables, trials))
    return StreamingResponse(pieces, media_type=media_type, headers=headers)


def in_pieces(lines: Iterable[str]) -> Iterator[str]:
    """Join lines into large chunks, because sending a chunk has a fixed cost."""
    gathered, length = [], 0
    for line in lines:
        gathered.append(line)
        length += len(line)
        if length >= PIECE:
            yield "".join(gathered)
            gathered, length = [], 0
    yield "".join(gathered)


def _every(database: Database, selection: Selection, *, reported: bool) -> Iterator[TrialView]:
    position: PagePosition | None = None
    while True:
        with database.read() as session:
            board = Leaderboard(session)
            rows = board.after(selection, position, limit=BATCH)
            views = trial_views(session, rows, reported=reported)
            position = board.place(selection, rows[-1].id) if rows else None
        yield from views
        if len(rows) < BATCH:
            return
