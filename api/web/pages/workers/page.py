"""Page of the workers: devices, activity, connection."""

from typing import Annotated, Any, Literal

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.paging import SORTED, page_of, parse_cursor
from api.http.routing import page_router
from api.rest import workers as rest
from api.schemas import DeviceId, Reason, WorkerId
from api.views import worker_view
from api.web.pages.workers.view import MINUTES, workers_of
from api.web.rendering import render
from db.queries import listing
from db.queries.listing import WORKER_ORDERS
from db.repositories.fleet import Fleet

router = page_router("/workers")

LISTED = 100
Cursor = Annotated[str | None, Query(max_length=500)]


@router.get("")
@allow("viewer")
def workers_page(request: Request, service: ServiceDep, cursor: Cursor = None) -> HTMLResponse:
    return render(request, "workers/workers.html", **_context(service, cursor))


@router.get("/live")
@allow("viewer")
def workers_fragment(request: Request, service: ServiceDep, cursor: Cursor = None) -> HTMLResponse:
    return render(request, "workers/_workers.html", **_context(service, cursor))


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
    """Explain quarantine and ask for a reason; `missing` is true after an empty one."""
    with service.database.read() as session:
        fleet = Fleet(session)
        row = fleet.device(worker_id, device_uuid)
        worker = worker_view(fleet.worker(worker_id), fleet.devices_of(worker_id), service.conductor.clock())
        aside = row if row.quarantined_at else None
    code = 422 if missing else 200
    return render(
        request, "workers/quarantine.html", device=row.device, worker=worker, aside=aside, missing=missing, code=code
    )


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


def _context(service: Service, cursor: str | None) -> dict[str, Any]:
    """Return a page of workers, the latest seen first."""
    now = service.conductor.clock()
    after = parse_cursor(cursor, SORTED["seen"])
    with service.database.read() as session:
        found = listing.list_workers(session, device=None, order="seen", after=after, limit=LISTED + 1)
        rows, following = page_of(found, LISTED, WORKER_ORDERS["seen"].sort_key)
        members = workers_of(session, rows, now, connected_since=service.conductor.connected_since())
    return {"members": members, "now": now, "minutes": MINUTES, "cursor": cursor, "following": following}
