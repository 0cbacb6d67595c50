"""Every trial of a selection as a file, streamed while it is read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fastapi.responses import StreamingResponse

from api.rest.trial_files import as_csv, as_json, as_ndjson
from api.views import trial_views
from db.engine.session import Database
from db.queries.leaderboard import Leaderboard, Place
from db.queries.selection import Selection
from evo.messages.view import TrialView
from evo.space import Tunable

BATCH = 500
"""Trials read at once: each batch is a transaction of its own, so that none stays open for minutes."""

PIECE = 64 << 10
"""Characters sent at once, at least."""

Writer = Callable[[Sequence[Tunable], Iterator[TrialView]], Iterator[str]]
FORMATS: Mapping[str, tuple[Writer, str]] = {
    "csv": (as_csv, "text/csv; charset=utf-8"),
    "json": (as_json, "application/json"),
    "ndjson": (as_ndjson, "application/x-ndjson"),
}
"""What writes a form, and its media type."""


def download(
    database: Database, tunables: Sequence[Tunable], selection: Selection, *, form: str, name: str
) -> StreamingResponse:
    """A table, one document, or a line for each trial, as a file of this name."""
    writer, media_type = FORMATS[form]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"', "X-Content-Type-Options": "nosniff"}
    trials = _every(database, selection, reported=form != "csv")  # a table has no room for what attempts left behind
    pieces = in_pieces(writer(tunables, trials))
    return StreamingResponse(pieces, media_type=media_type, headers=headers)


def in_pieces(lines: Iterable[str]) -> Iterator[str]:
    """The same text in large pieces: each is sent by itself, and crosses between threads once."""
    gathered, length = [], 0
    for line in lines:
        gathered.append(line)
        length += len(line)
        if length >= PIECE:
            yield "".join(gathered)
            gathered, length = [], 0
    yield "".join(gathered)


def _every(database: Database, selection: Selection, *, reported: bool) -> Iterator[TrialView]:
    place: Place | None = None
    while True:
        with database.read() as session:
            board = Leaderboard(session)
            rows = board.after(selection, place, limit=BATCH)
            views = trial_views(session, rows, reported=reported)
            place = board.place(selection, rows[-1]) if rows else None
        yield from views
        if len(views) < BATCH:
            return
