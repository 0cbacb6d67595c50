"""Page with the leaderboard of all searches that compete for the same champion."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse
from sqlalchemy.orm import Session

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.routing import page_router
from api.rest.selection import selection_of, tunables_of
from api.rest.trial_files import download
from api.views import champion_view, search_view
from api.web.address import Address, AddressDep
from api.web.content.leaderboard import listing_of
from api.web.rendering import render
from db.queries.leaderboard import Leaderboard
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from evo.errors import NotFound
from evo.messages.view import ChampionView
from evo.messages.view.runs import DIFFERENT_RUNS
from evo.search.lifecycle import TERMINAL

router = page_router("/leaderboard")

Text = Annotated[str, Query(max_length=2000)]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Key of a champion: family, problem, device model and objective."""

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
        """URL of the leaderboard for this key."""
        return Address().at("/leaderboard", vars(self))


def _parsed_contest(family: Text, problem: Text, device: Text, objective: Text) -> Contest:
    return Contest(family=family, problem=problem, device=device, objective=objective)


ContestDep = Annotated[Contest, Depends(_parsed_contest)]


@router.get("")
@allow("viewer")
def contest_page(contest: ContestDep, address: AddressDep, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        content = _contest(session, service, contest, address)
    return render(request, "contest/contest.html", **content)


@router.get("/rows")
@allow("viewer")
def contest_fragment(contest: ContestDep, address: AddressDep, request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        content = _contest(session, service, contest, address)
    return render(request, "_leaderboard.html", **content)


@router.get("/trials.{form}")
@allow("viewer")
def contest_file(
    contest: ContestDep, address: AddressDep, form: Literal["csv", "json"], service: ServiceDep
) -> StreamingResponse:
    """Download all matching trials, not only the trials of one page."""
    with service.database.read() as session:
        searches = _searches(session, contest)
        tunables = tunables_of(session, service.conductor.catalogue, searches[-1])
    words = {"sort": address.sort, "where": address.where, "text": address.q}
    selection = selection_of(searches, tunables, outcomes=address.outcomes, **words)
    return download(service.database, tunables, selection, form=form, name=f"{contest.family}-trials")


def _contest(session: Session, service: Service, contest: Contest, address: Address) -> dict[str, Any]:
    searches = _searches(session, contest)
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
        "different_runs": DIFFERENT_RUNS,
        "listing": listing_of(session, here, tunables, search=latest, searches=searches),
        "rows_path": "/leaderboard/rows",
        "files": {form: here.at(f"/leaderboard/trials.{form}", vars(contest)).url() for form in ("csv", "json")},
        "counts": dict(sorted(total.items(), key=lambda item: (-item[1], item[0]))),
        "ended": sum(total.values()),
        "live": latest.state not in TERMINAL,
        "many": True,
    }


def _searches(session: Session, contest: Contest) -> tuple[int, ...]:
    """Return the ids of the competing searches, oldest first.

    Raises:
        NotFound: no search has the family, problem, device model and objective of `contest`.
    """
    found = Leaderboard(session).searches_of(
        family=contest.family,
        problem_key=contest.problem,
        objective_key=contest.objective,
        device_model=contest.device,
    )
    if not found:
        raise NotFound(
            "no search has this family, problem, device and objective; follow a link on /champions or on a search page"
        )
    return found
