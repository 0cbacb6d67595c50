"""The kernel families: what can be searched."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.rule import allow
from api.deps import ServiceDep
from api.views import family_view
from api.web.rendering import render
from db.archive import Archive

router = APIRouter(prefix="/families")


@router.get("")
@allow("viewer")
def families_page(request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        families = tuple(family_view(row) for row in Archive(session).families())
    return render(request, "families.html", families=families)
