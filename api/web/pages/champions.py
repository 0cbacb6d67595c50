"""The champions: what won on which problem and device."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.rule import allow
from api.deps import ServiceDep
from api.views import champion_view
from api.web.rendering import render
from db.champions import Champions

router = APIRouter(prefix="/champions")

LISTED = 200


@router.get("")
@allow("viewer")
def champions_page(request: Request, service: ServiceDep, history: bool = False) -> HTMLResponse:
    with service.database.read() as session:
        rows = Champions(session).champions(current_only=not history, limit=LISTED)
        champions = tuple(champion_view(row) for row in rows)
    return render(request, "champions.html", champions=champions, history=history)
