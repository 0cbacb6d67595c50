"""Two trials side by side."""

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.rule import allow
from api.deps import ServiceDep
from api.schemas import Id
from api.web.comparison_sheet import compared
from api.web.rendering import render

router = APIRouter()


@router.get("/compare")
@allow("viewer")
def compare_page(
    left: Id, right: Id, request: Request, service: ServiceDep, view: Literal["unified", "split"] = "split"
) -> HTMLResponse:
    with service.database.read() as session:
        both = compared(session, service.artefacts, left, right, service.conductor.clock())
    return render(request, "compare.html", both=both, view=view)
