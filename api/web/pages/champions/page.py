"""Pages with the list of champions, and with the forms that roll back or restore a champion."""

from typing import Annotated, Literal

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BeforeValidator

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.paging import SORTED, page_of, parse_cursor
from api.http.routing import page_router
from api.schemas import Id
from api.views import champion_view
from api.web.pages.contest.page import Contest, Text
from api.web.rendering import render
from db.queries import listing
from db.queries.listing import CHAMPION_ORDERS, ChampionFilter, ChampionOrder
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.messages.view.runs import note_of_rivals
from evo.text.assignments import split_assignments

router = page_router()

LISTED = 50


@router.get("/champions")
@allow("viewer")
def champions_page(
    request: Request,
    service: ServiceDep,
    *,
    family: Text = "",
    problem: Text = "",
    device: Text = "",
    history: bool = False,
    sort: ChampionOrder = "newest",
    cursor: Annotated[str | None, Query(max_length=500)] = None,
) -> HTMLResponse:
    fields = split_assignments(problem, "problem")
    wanted = ChampionFilter(family=family or None, problem=fields, device=device or None, current_only=not history)
    with service.database.read() as session:
        after = parse_cursor(cursor, SORTED[sort])
        found = listing.list_champions(session, wanted, sort, after=after, limit=LISTED + 1)
        rows, following = page_of(found, LISTED, CHAMPION_ORDERS[sort].sort_key)
        champions = [champion_view(row) for row in rows]
        families = sorted({row.name for row in Archive(session).families()})
    following_url = None if following is None else request.url.include_query_params(cursor=following)
    return render(
        request,
        "champions/champions.html",
        champions=[(champion, Contest.of(champion)) for champion in champions],
        note=note_of_rivals(map(Contest.of, champions)),
        history=history,
        wanted=wanted,
        problem=problem,
        sort=sort,
        families=families,
        given=bool(family or problem or device or cursor),
        next_page=None if following_url is None else f"{following_url.path}?{following_url.query}",
    )


@router.get("/champions/{champion_id}/rollback")
@allow("submitter")
def rollback_page(
    champion_id: Id, request: Request, service: ServiceDep, missing: Literal["reason"] | None = None
) -> HTMLResponse:
    """Show the rollback form, which asks for a reason. `missing` is ``reason`` if the form was sent without one."""
    with service.database.read() as session:
        champions = Champions(session)
        champion = champion_view(champions.champion(champion_id))
        earlier = champions.predecessor(champion_id)
        before = None if earlier is None else champion_view(earlier)
    code = 422 if missing else 200
    return render(request, "champions/rollback.html", champion=champion, before=before, missing=missing, code=code)


@router.get("/champions/{champion_id}/restore")
@allow("submitter")
def restore_page(
    champion_id: Id, request: Request, service: ServiceDep, missing: Literal["reason"] | None = None
) -> HTMLResponse:
    """Show the form for restoring a former champion, or the reason why it cannot be restored.

    `missing` is ``reason`` if the form was sent without a reason.
    """
    with service.database.read() as session:
        champions = Champions(session)
        row = champions.champion(champion_id)
        current = champions.current_of(row)
        present = None if current is None else champion_view(current)
        champion, fault = champion_view(row), champions.evidence_fault(row)
    code = 422 if missing else 200
    return render(
        request, "champions/restore.html", champion=champion, present=present, fault=fault, missing=missing, code=code
    )


@router.post("/champions/{champion_id}/restore")
@allow("submitter")
def restore(
    champion_id: Id,
    service: ServiceDep,
    over: Annotated[int | None, BeforeValidator(lambda typed: typed or None), Form()] = None,
    reason: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    """Restore a champion in place of `over`, the champion that was current when the page was shown.

    `over` is empty if there was no current champion.
    """
    if not reason.strip():
        return RedirectResponse(f"/champions/{champion_id}/restore?missing=reason", 303)
    with service.database.write() as session:
        why, now = reason.strip(), service.conductor.clock()
        Champions(session).restore(champion_id, over=over, reason=why, by=caller().name, now=now)
    return RedirectResponse(f"/champions/{champion_id}", 303)


@router.post("/champions/{champion_id}/rollback")
@allow("submitter")
def roll_back(champion_id: Id, service: ServiceDep, reason: Annotated[str, Form(max_length=2000)] = "") -> Response:
    if not reason.strip():
        return RedirectResponse(f"/champions/{champion_id}/rollback?missing=reason", 303)
    with service.database.write() as session:
        now = service.conductor.clock()
        Champions(session).roll_back(champion_id, reason=reason.strip(), by=caller().name, now=now)
    return RedirectResponse(f"/champions/{champion_id}", 303)
