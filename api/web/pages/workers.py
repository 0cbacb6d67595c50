"""The workers: what they offer and whether they live."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from api.access.rule import allow
from api.deps import ServiceDep
from api.views import worker_view
from api.web.rendering import render
from db.fleet import Fleet

router = APIRouter(prefix="/workers")


@router.get("")
@allow("viewer")
def workers_page(request: Request, service: ServiceDep) -> HTMLResponse:
    with service.database.read() as session:
        workers = tuple(worker_view(row, row.devices) for row in Fleet(session).workers())
    return render(request, "workers.html", workers=workers, now=service.conductor.clock())
