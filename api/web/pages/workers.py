"""The workers: what they offer, what they do and whether they live."""

from typing import Annotated, Any, Literal

from fastapi import Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.access.rule import allow
from api.deps import Service, ServiceDep
from api.routes import workers as rest
from api.routes.workers import DeviceId, WorkerId
from api.routing import page_router
from api.schemas import Reason
from api.views import worker_view
from api.web.crew import MINUTES, crew_of
from api.web.rendering import render
from db.fleet import Fleet

router = page_router("/workers")


@router.get("")
@allow("viewer")
def workers_page(request: Request, service: ServiceDep) -> HTMLResponse:
    return render(request, "workers.html", **_crew(service))


@router.get("/live")
@allow("viewer")
def workers_fragment(request: Request, service: ServiceDep) -> HTMLResponse:
    return render(request, "_workers.html", **_crew(service))


@router.post("/{worker_id}/drain")
@allow("admin")
def drain_worker(worker_id: WorkerId, service: ServiceDep) -> Response:
    rest.drain_worker(worker_id, service)
    return _back()


@router.post("/{worker_id}/resume")
@allow("admin")
def resume_worker(worker_id: WorkerId, service: ServiceDep) -> Response:
    rest.resume_worker(worker_id, service)
    return _back()


@router.get("/{worker_id}/devices/{device_uuid}/quarantine")
@allow("admin")
def quarantine_page(
    worker_id: WorkerId,
    device_uuid: DeviceId,
    request: Request,
    service: ServiceDep,
    missing: Literal["reason"] | None = None,
) -> HTMLResponse:
    """What it means, and a reason to give; `missing` after none was given."""
    with service.database.read() as session:
        fleet = Fleet(session)
        row = fleet.device(worker_id, device_uuid)
        worker = worker_view(fleet.worker(worker_id), fleet.devices_of(worker_id))
        aside = row if row.quarantined_at else None
    code = 422 if missing else 200
    return render(request, "quarantine.html", device=row.device, worker=worker, aside=aside, missing=missing, code=code)


@router.post("/{worker_id}/devices/{device_uuid}/quarantine")
@allow("admin")
def quarantine_device(
    worker_id: WorkerId,
    device_uuid: DeviceId,
    request: Request,
    service: ServiceDep,
    reason: Annotated[str, Form(max_length=2000)] = "",
) -> Response:
    if not reason.strip():
        return RedirectResponse(f"{request.url.path}?missing=reason", 303)
    rest.quarantine_device(worker_id, device_uuid, Reason(reason=reason.strip()), service)
    return _back()


@router.post("/{worker_id}/devices/{device_uuid}/clear")
@allow("admin")
def clear_device(worker_id: WorkerId, device_uuid: DeviceId, service: ServiceDep) -> Response:
    rest.clear_device(worker_id, device_uuid, service)
    return _back()


def _back() -> Response:
    return RedirectResponse("/workers", 303)


def _crew(service: Service) -> dict[str, Any]:
    now = service.conductor.clock()
    with service.database.read() as session:
        crew = crew_of(session, now, connected_since=service.conductor.connected_since())
    return {"crew": crew, "now": now, "minutes": MINUTES}
