"""REST routes that start, list, read, control, edit and delete searches."""

from typing import Annotated, Literal

from fastapi import Query, Response
from pydantic import Field

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.etag import IfMatch, require, search_tag, shown_tag
from api.http.paging import SORTED, PageQuery, page_of, parse_cursor
from api.http.routing import rest_router
from api.schemas import Id, SearchPatch, SearchRequest
from api.views import listed_views, search_view
from db.engine.events import Events
from db.queries import listing
from db.queries.listing import SEARCH_ORDERS, SearchFilter, SearchOrder
from db.repositories.archive import Archive
from db.repositories.leases import Leases
from db.repositories.retention import remove_search
from db.repositories.variants import Variants
from evo.errors import Conflict, NotFound
from evo.messages.view import Page, SearchView
from evo.search.lifecycle import TERMINAL, Command, State
from evo.text.assignments import split_assignments
from evo.trial.results import EvaluateReport

router = rest_router("/searches", tag="searches")


class SearchQuery(PageQuery):
    state: State | None = None
    family: str | None = None
    problem: str = Field(default="", description="values of problem fields that a search must have, e.g. `B=1,H=8`")
    device: str | None = Field(default=None, description="a device model")
    archived: Literal["false", "true", "any"] = "false"
    text: str | None = Field(default=None, max_length=200, description="text in the notes, the family or the problem")
    sort: SearchOrder = "newest"


@router.post("", status_code=201)
@allow("submitter")
def create_search(body: SearchRequest, service: ServiceDep) -> SearchView:
    """Start a search of a built-in or registered family. A connected worker must offer the device."""
    if body.family is not None:
        service.builtin.ensure(body.family)
    webhook = None if body.webhook is None else service.webhooks.accepted(body.webhook)
    return _view(service, service.conductor.orders.submit(body, webhook))


@router.get("")
@allow("viewer")
def list_searches(query: Annotated[SearchQuery, Query()], service: ServiceDep) -> Page[SearchView]:
    """Return searches, newest first by default. Archived searches are listed only on request."""
    wanted = SearchFilter(
        state=query.state,
        family=query.family,
        problem=split_assignments(query.problem, "problem"),
        device=query.device,
        archived=None if query.archived == "any" else query.archived == "true",
        text=query.text,
    )
    with service.database.read() as session:
        after = parse_cursor(query.cursor, SORTED[query.sort])
        found = listing.list_searches(session, wanted, query.sort, after=after, limit=query.limit + 1)
        rows, following = page_of(found, query.limit, SEARCH_ORDERS[query.sort].sort_key)
        return Page(items=tuple(listed_views(session, rows, service.conductor.clock())), next=following)


@router.get("/{search_id}")
@allow("viewer")
def get_search(search_id: Id, service: ServiceDep, response: Response) -> SearchView:
    """Return one search. Its `ETag` changes with its state and with decisions of users, but not when trials end."""
    with service.database.read() as session:
        view = search_view(session, search_id, service.conductor.clock())
        response.headers["etag"] = shown_tag(search_tag(Archive(session).search(search_id)), view)
        return view


@router.post("/{search_id}/pause")
@allow("submitter")
def pause_search(search_id: Id, service: ServiceDep, if_match: IfMatch = None) -> SearchView:
    """Pause a search. No more jobs are leased; running jobs continue to their end."""
    return _commanded(service, search_id, "pause", if_match)


@router.post("/{search_id}/resume")
@allow("submitter")
def resume_search(search_id: Id, service: ServiceDep, if_match: IfMatch = None) -> SearchView:
    """Resume a paused search."""
    return _commanded(service, search_id, "resume", if_match)


@router.post("/{search_id}/stop")
@allow("submitter")
def stop_search(search_id: Id, service: ServiceDep, if_match: IfMatch = None) -> SearchView:
    """Stop a search. It proposes no more trials, lets running jobs end, confirms its best trials, and finishes."""
    return _commanded(service, search_id, "stop", if_match)


@router.post("/{search_id}/cancel")
@allow("submitter")
def cancel_search(search_id: Id, service: ServiceDep, if_match: IfMatch = None) -> SearchView:
    """End a search immediately. Its leases become invalid, pending trials are cancelled, and no trial is promoted."""
    return _commanded(service, search_id, "cancel", if_match)


@router.get("/{search_id}/binaries/{digest}")
@allow("viewer", "worker")
def get_binary_report(search_id: Id, digest: str, service: ServiceDep) -> EvaluateReport:
    """Return the report of an earlier trial whose binary has this digest.

    Trials of this search are preferred. If the search has variants, trials of the searches that tune them are also
    considered. If the search tunes a variant, so are trials of the search to which the variant was submitted, and of
    the searches that tune its other variants.
    """
    with service.database.read() as session:
        variants = Variants(session)
        population = variants.searches_of(variants.base_id(search_id))
        own = [search_id, *(each for each in population if each != search_id)]
        trial = Archive(session).trial_of_binary(own, digest)
        report = Leases(session).evaluations([trial.id]).get(trial.id)
    if report is None:
        raise NotFound(f"search {search_id} has no report on the binary {digest}")
    return report


def _commanded(service: ServiceDep, search_id: int, command: Command, if_match: str | None) -> SearchView:
    if if_match is not None:
        with service.database.read() as session:
            require(if_match, search_tag(Archive(session).search(search_id)))
    service.conductor.orders.command(search_id, command)
    return _view(service, search_id)


def _view(service: ServiceDep, search_id: int) -> SearchView:
    with service.database.read() as session:
        return search_view(session, search_id, service.conductor.clock())


@router.patch("/{search_id}")
@allow("submitter")
def edit_search(
    search_id: Id, body: SearchPatch, service: ServiceDep, response: Response, if_match: IfMatch = None
) -> SearchView:
    """Change the notes or the priority, or archive an ended search. Omitted fields do not change."""
    now = service.conductor.clock()
    with service.database.write() as session:
        row = Archive(session).search(search_id)
        require(if_match, search_tag(row))
        if body.archived and row.state not in TERMINAL:
            raise Conflict(f"search {search_id} is {row.state}; only an ended search can be archived")
        if body.notes is not None:
            row.notes = body.notes
        if body.priority is not None:
            row.priority = body.priority
        if body.archived is not None:
            row.archived_at = (row.archived_at or now) if body.archived else None
        Events(session).search_changed(search_id)
    with service.database.read() as session:
        view = search_view(session, search_id, now)
        response.headers["etag"] = shown_tag(search_tag(Archive(session).search(search_id)), view)
        return view


@router.delete("/{search_id}", status_code=204)
@allow("submitter")
def delete_search(search_id: Id, service: ServiceDep, if_match: IfMatch = None) -> None:
    """Delete an ended search with its trials. The status is 409 if a champion's evidence depends on the search."""
    with service.database.write() as session:
        if if_match is not None:  # otherwise, even unreadable searches can be deleted
            require(if_match, search_tag(Archive(session).search(search_id)))
        remove_search(session, search_id)
