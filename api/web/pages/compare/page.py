"""Page that compares two trials side by side."""

from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import RedirectResponse, Response

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import page_router
from api.schemas import Id
from api.web.pages.compare.comparison import compared
from api.web.rendering import render
from api.web.trial_reference import TrialReference, parse_reference
from evo.errors import InvalidInput
from evo.text.wording import count_text

router = page_router()

View: TypeAlias = Literal["unified", "split"]
Name: TypeAlias = Annotated[str, Query(max_length=40)]


@router.get("/compare")
@allow("viewer")
def compare_page(
    request: Request,
    service: ServiceDep,
    *,
    left: Name = "",
    right: Name = "",
    search: Id | None = None,
    trial: Annotated[list[str] | None, Query(max_length=100)] = None,
    view: View | None = None,
) -> Response:
    """Show two trials named like ``left=3.57&right=3.60``. Other forms are redirected to this address.

    Args:
        search: search of `left` and `right` if they are mere numbers.
        trial: the two trials ticked in a leaderboard.
        view: layout of the sources; None: side by side if the window is wide enough, else unified.
    """
    with service.database.read() as session:
        given = _ticked(trial) if trial else {"left": left, "right": right}
        places = [parse_reference(session, field, name, search) for field, name in given.items()]
        if [left, right] != list(map(str, places)):
            return RedirectResponse(_address(places, view), 303)
        rows = [place.row(session) for place in places]
        both = compared(session, service.artefacts, rows, service.conductor.clock())
    return render(request, "compare/compare.html", both=both, view=view)


def _ticked(trials: list[str]) -> dict[str, str]:
    if len(trials) != 2:
        raise InvalidInput("trial", f"tick two trials to compare: {count_text(len(trials), 'trial')} ticked")
    return dict(zip(("left", "right"), trials, strict=True))


def _address(places: list[TrialReference], view: View | None) -> str:
    sides = dict(zip(("left", "right"), map(str, places), strict=True))
    return f"/compare?{urlencode(sides | ({} if view is None else {'view': view}))}"
