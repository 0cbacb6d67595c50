"""Downloads: all trials of a selection as a file, streamed while they are read."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fastapi.responses import StreamingResponse

from api.rest.trial_files import as_csv, as_json, as_ndjson
from api.views import trial_views
from db.engine.session import Database
from db.queries.leaderboard import Leaderboard, PagePosition
from db.queries.selection import Selection
from evo.messages.view import TrialView
from evo.space import Tunable

BATCH = 500
"""Trials read at once. Each batch is a transaction, so that none stays open for minutes."""

PIECE = 64 << 10
"""Least number of characters sent at once."""

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
    """Return a file of this name: a table, one document, or a line for each trial."""
    writer, media_type = FORMATS[form]
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"', "X-Content-Type-Options": "nosniff"}
    trials = _every(database, selection, reported=form != "csv")  # tables omit the files of attempts
    pieces = in_pieces(writer(tunables, trials))
    return StreamingResponse(pieces, media_type=media_type, headers=headers)


def in_pieces(lines: Iterable[str]) -> Iterator[str]:
    """Join the text into large pieces, because each piece is sent and crosses between threads separately."""
    gathered, length = [], 0
    for line in lines:
        gathered.append(line)
        length += len(line)
        if length >= PIECE:
            yield "".join(gathered)
            gathered, length = [], 0
    yield "".join(gathered)


def _every(database: Database, selection: Selection, *, reported: bool) -> Iterator[TrialView]:
    place: PagePosition | None = None
    while True:
        with database.read() as session:
            board = Leaderboard(session)
            rows = board.after(selection, place, limit=BATCH)
            views = trial_views(session, rows, reported=reported)
            place = board.place(selection, rows[-1]) if rows else None
        yield from views
        if len(views) < BATCH:
            return
