"""REST routes that return trials by id, by number in a search, in pages, or as a file."""

from typing import Annotated, Any, Literal

from fastapi import Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.paging import TRIAL, Ordinal, PageQuery, parse_cursor, to_cursor
from api.http.routing import rest_router
from api.rest.selection import fitting, selection_of, tunables_of
from api.rest.trial_files import FORMATS, download
from api.schemas import Id, TrialState
from api.views import trial_view, trial_views
from db.queries.landscape import Landscape
from db.queries.leaderboard import Leaderboard
from db.queries.numbered_trials import NumberedTrials
from db.queries.selection import KEYS, Selection
from db.repositories.archive import Archive
from evo.errors import Conflict
from evo.messages.view import Page, TrialView
from evo.space import Tunable

trial_router = rest_router("/trials", tag="searches")


@trial_router.get("/{trial_id}")
@allow("viewer")
def get_trial(trial_id: Id, service: ServiceDep) -> TrialView:
    """Return a trial with its outcome, stages, artefacts and all attempts."""
    with service.database.read() as session:
        return trial_view(session, trial_id)


router = rest_router("/searches/{search_id}", tag="searches")

ORDERS = f"{', '.join(f'`{key}`' for key in KEYS)} or a tunable; a leading `-` reverses the order"


class TrialWords(BaseModel):
    """Filters and sort order of trials."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sort: str = Field(default="number", max_length=80, description=ORDERS)
    outcome: list[TrialState] = Field(
        default=[], max_length=20, description="kinds of outcome, or `pending`; a trial must have one of them"
    )
    where: str = Field(default="", max_length=1000, description="conditions, e.g. `WIDTH=8,BLOCK_M>=32,LAYOUT=row|col`")
    q: str = Field(
        default="", max_length=200, description="text in the config, the origin or the description of an outcome"
    )


class TrialQuery(PageQuery, TrialWords):
    """Filters, sort order and page of trials."""


def _selected(service: Service, search_id: int, words: TrialWords) -> tuple[tuple[Tunable, ...], Selection]:
    with service.database.read() as session:
        tunables = tunables_of(session, service.conductor.catalogue, search_id)
    filters = {"sort": words.sort, "outcomes": words.outcome, "where": words.where, "text": words.q}
    return tunables, selection_of((search_id,), tunables, **filters)  # type: ignore[arg-type]


@router.get("/trials")
@allow("viewer")
def list_trials(search_id: Id, query: Annotated[TrialQuery, Query()], service: ServiceDep) -> Page[TrialView]:
    """Return trials in the requested order. Trials without a value of the sort key come last, by number."""
    _, selection = _selected(service, search_id, query)
    position = fitting(selection.order, parse_cursor(query.cursor, TRIAL))
    with service.database.read() as session:
        board = Leaderboard(session)
        rows = board.after(selection, position, limit=query.limit + 1)
        items = trial_views(session, rows[: query.limit])
        if len(rows) <= query.limit:
            return Page(items=items)
        last = board.place(selection, rows[query.limit - 1].id)
    return Page(items=items, next=to_cursor((last.key, last.number, last.id, last.group)))


@router.get("/front")
@allow("viewer")
def list_front(search_id: Id, service: ServiceDep) -> tuple[TrialView, ...]:
    """Return the trials on the Pareto front of a search with two objectives, sorted by the first objective.

    In a search with one metric, the objectives are the metric and the time. The status is 409 if the time is the only
    objective.
    """
    with service.database.read() as session:
        objective = Archive(session).search(search_id).objective
        if objective.axes is None:
            remedy = "start a search with a second objective, or rank the trials by their time"
            raise Conflict(f"the only objective of search {search_id} is the time, so it has no Pareto front; {remedy}")
        numbers = Landscape(session, search_id).front(joint=objective.second is not None)
        rows = NumberedTrials(session, search_id).every(numbers)
        return trial_views(session, [rows[number] for number in numbers if number in rows])


@router.get("/trials/{number}")
@allow("viewer")
def get_numbered_trial(search_id: Id, number: Ordinal, service: ServiceDep) -> TrialView:
    """Return one trial with all details, by its number in the search."""
    with service.database.read() as session:
        return trial_view(session, NumberedTrials(session, search_id).numbered(number).id)


_TRIALS = {"type": "array", "items": {"$ref": "#/components/schemas/TrialView"}}
_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            media_type: {"schema": _TRIALS if form == "json" else {"type": "string"}}
            for form, (_, media_type) in FORMATS.items()
        }
    }
}


@router.get("/trials.{form}", response_class=StreamingResponse, responses=_CONTENT)
@allow("viewer")
def export_trials(
    search_id: Id,
    form: Literal["csv", "json", "ndjson"],
    words: Annotated[TrialWords, Query()],
    service: ServiceDep,
) -> StreamingResponse:
    """Stream all selected trials as CSV, as one JSON document, or as one line of JSON per trial."""
    tunables, selection = _selected(service, search_id, words)
    return download(service.database, tunables, selection, form=form, name=f"search-{search_id}-trials")
