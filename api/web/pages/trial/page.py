"""Page of one trial, with config, source, differences, samples, correctness, log, attempts and files."""

from typing import Annotated, TypeAlias

from fastapi import Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.paging import Ordinal
from api.http.routing import page_router
from api.schemas import Digest, Id
from api.web.content.artefact_list import text_of
from api.web.content.difference import View
from api.web.pages.trial.sheet import sheet_of
from api.web.rendering import render
from api.web.trial_reference import TrialReference
from db.repositories.archive import Archive
from evo.trial.explain import detail_text

router = page_router()

Against: TypeAlias = Annotated[str | None, Query(max_length=40)]


@router.get("/searches/{search_id}/trials/{number}")
@allow("viewer")
def trial_page(
    search_id: Id,
    number: Ordinal,
    request: Request,
    service: ServiceDep,
    *,
    against: Against = None,
    view: View = "unified",
) -> HTMLResponse:
    with service.database.read() as session:
        now, row = service.conductor.clock(), TrialReference(search=search_id, number=number).row(session)
        sheet = sheet_of(session, service.artefacts, row, now, against=against or None)
    outcome = sheet.trial.outcome
    detail = "" if outcome is None else detail_text(outcome)
    return render(
        request, "trial/trial.html", sheet=sheet, trial=sheet.trial, search=sheet.search, detail=detail, view=view
    )


@router.get("/trials/{trial_id}")
@allow("viewer")
def trial_by_id(
    trial_id: Id, request: Request, service: ServiceDep, against: Against = None, view: View = "unified"
) -> Response:
    """Redirect a trial's URL from an earlier version of kernel-evo to its current URL."""
    with service.database.read() as session:
        row = Archive(session).trial(trial_id)
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(TrialReference(search=row.search_id, number=row.number).path + query, 303)


@router.get("/artefacts/{digest}/{filename}")
@allow("viewer")
def raw_artefact(digest: Digest, filename: str, service: ServiceDep) -> Response:
    """Download a stored text or binary. Browsers never show it as a page."""
    with service.database.read() as session:
        _, content = service.artefacts.get(session, digest)
    media_type = "application/octet-stream" if text_of(content) is None else "text/plain"
    headers = {"Content-Disposition": "attachment", "X-Content-Type-Options": "nosniff"}
    return Response(content, media_type=media_type, headers=headers)
