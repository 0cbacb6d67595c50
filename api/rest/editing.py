"""Decisions about a search: priority, notes, archive, deletion."""

from fastapi import Response

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.etag import IfMatch, require, search_tag, shown_tag
from api.http.routing import rest_router
from api.schemas import Id, SearchPatch
from api.views import search_view
from db.engine.events import Events
from db.repositories.archive import Archive
from db.repositories.retention import remove_search
from evo.errors import Conflict
from evo.messages.view import SearchView
from evo.search.lifecycle import TERMINAL

router = rest_router("/searches", tag="searches")


@router.patch("/{search_id}")
@allow("submitter")
def edit_search(
    search_id: Id, body: SearchPatch, service: ServiceDep, response: Response, if_match: IfMatch = None
) -> SearchView:
    """Change notes or priority, or archive an ended search. Omitted fields stay as they are."""
    now = service.conductor.clock()
    with service.database.write() as session:
        row = Archive(session).search(search_id)
        require(if_match, search_tag(row))
        if body.archived and row.state not in TERMINAL:
            raise Conflict(f"search {search_id} is {row.state}: only one that has ended goes into the archive")
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
    """Delete an ended search with its trials. Refused while a champion's evidence depends on it."""
    with service.database.write() as session:
        require(if_match, search_tag(Archive(session).search(search_id)))
        remove_search(session, search_id)
