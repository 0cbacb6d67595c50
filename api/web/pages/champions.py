"""The champions: what won on which problem and device, what competes with it, and the way back."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from api.access.rule import allow
from api.deps import Service, ServiceDep
from api.paging import SORTED, page_of, place_of
from api.schemas import Id
from api.selection import tunables_of
from api.views import champion_view, search_view
from api.web.address import Address, AddressDep
from api.web.leaderboard import listing_of
from api.web.rendering import render
from db import listing
from db.archive import Archive
from db.champions import Champions
from db.leaderboard import Leaderboard
from db.listing import CHAMPION_ORDERS, ChampionFilter, ChampionOrder
from evo.errors import NotFound
from evo.lifecycle import TERMINAL
from evo.problem import split_assignments
from evo.view import ChampionView

router = APIRouter()

LISTED = 50
Text = Annotated[str, Query(max_length=2000)]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What champions are champions of."""

    family: str
    problem: str
    device: str
    objective: str

    @classmethod
    def of(cls, champion: ChampionView) -> "Contest":
        return cls(
            family=champion.family,
            problem=champion.problem_key,
            device=champion.device_model,
            objective=champion.objective.key,
        )

    @property
    def address(self) -> Address:
        """Of its leaderboard."""
        return Address().at("/leaderboard", vars(self))


def _asked(family: Text, problem: Text, device: Text, objective: Text) -> Contest:
    return Contest(family=family, problem=problem, device=device, objective=objective)


ContestDep = Annotated[Contest, Depends(_asked)]


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
        after = place_of(cursor, SORTED[sort])
        found = listing.list_champions(session, wanted, sort, after=after, limit=LISTED + 1)
        rows, following = page_of(found, LISTED, CHAMPION_ORDERS[sort].place)
        champions = [champion_view(row) for row in rows]
        families = sorted({row.name for row in Archive(session).families()})
    following_url = None if following is None else request.url.include_query_params(cursor=following)
    return render(
        request,
        "champions.html",
        champions=[(champion, Contest.of(champion)) for champion in champions],
        history=history,
        wanted=wanted,
        problem=problem,
        sort=sort,
        families=families,
        given=bool(family or problem or device or cursor),
        next_page=None if following_url is None else f"{following_url.path}?{following_url.query}",
    )


@router.get("/leaderboard")
@allow("viewer")
def contest_page(contest: ContestDep, address: AddressDep, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        content = _contest(session, service, contest, address)
    return render(request, "contest.html", **content)


@router.get("/leaderboard/rows")
@allow("viewer")
def contest_fragment(contest: ContestDep, address: AddressDep, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        content = _contest(session, service, contest, address)
    return render(request, "_leaderboard.html", **content)


@router.get("/champions/{champion_id}/rollback")
@allow("submitter")
def rollback_page(champion_id: Id, request: Request, service: ServiceDep) -> HTMLResponse:
    return _confirm(request, service, champion_id)


@router.post("/champions/{champion_id}/rollback")
@allow("submitter")
def roll_back(
    champion_id: Id, request: Request, service: ServiceDep, reason: Annotated[str, Form(max_length=2000)] = ""
) -> Response:
    if not reason.strip():
        return _confirm(request, service, champion_id, wrong="say why: whoever finds it gone will want to know")
    with service.database.write() as session:
        Champions(session).roll_back(champion_id, reason=reason.strip(), now=service.conductor.clock())
    return RedirectResponse(f"/champions/{champion_id}", 303)


def _contest(session: Session, service: Service, contest: Contest, address: Address) -> dict[str, Any]:
    searches = Leaderboard(session).searches_of(
        family=contest.family,
        problem_key=contest.problem,
        objective_key=contest.objective,
        device_model=contest.device,
    )
    if not searches:
        raise NotFound("nothing was ever searched there: follow a link of /champions or of a search")
    latest = search_view(session, searches[-1], service.conductor.clock())
    rows = Champions(session).champions(family=contest.family, device=contest.device, current_only=False)
    every = [champion_view(row) for row in rows if row.problem_key == contest.problem]
    history = [champion for champion in every if champion.objective.key == contest.objective]
    counts = Archive(session).counts(searches)
    kinds = {kind for each in counts.values() for kind in each if kind is not None}
    total = {kind: sum(each.get(kind, 0) for each in counts.values()) for kind in kinds}
    tunables = tunables_of(session, service.conductor.catalogue, latest.id)
    here = address.at("/leaderboard", vars(contest))
    return {
        "contest": contest,
        "latest": latest,
        "searches": searches,
        "champion": next((champion for champion in history if champion.current), None),
        "history": history,
        "listing": listing_of(session, here, tunables, search=latest, searches=searches),
        "rows_path": "/leaderboard/rows",
        "counts": dict(sorted(total.items(), key=lambda item: (-item[1], item[0]))),
        "ended": sum(total.values()),
        "live": latest.state not in TERMINAL,
        "many": True,
    }


def _confirm(request: Request, service: Service, champion_id: int, *, wrong: str = "") -> HTMLResponse:
    with service.database.read() as session:
        champions = Champions(session)
        champion = champion_view(champions.champion(champion_id))
        earlier = champions.behind(champion_id)
        before = None if earlier is None else champion_view(earlier)
    code = 422 if wrong else 200
    return render(request, "rollback.html", champion=champion, before=before, wrong=wrong, code=code)
