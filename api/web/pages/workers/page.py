"""Page with the workers, their devices, activity and connection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Form, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from api.auth.permission import allow
from api.dependencies import Service, ServiceDep
from api.http.paging import SORTED, page_of, parse_cursor
from api.http.routing import page_router
from api.rest import workers as rest
from api.schemas import DeviceId, Reason, WorkerId
from api.views import worker_view
from api.web.rendering import render
from db.models import AttemptRow, WorkerRow
from db.queries import listing
from db.queries.census import Workload
from db.queries.listing import WORKER_ORDERS
from db.repositories.fleet import Fleet
from evo.device import Device
from evo.messages.view import SlotView, WorkerView

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
    """Show the quarantine form, which asks for a reason. `missing` is ``reason`` if the form was sent without one."""
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
    now = service.conductor.clock()
    after = parse_cursor(cursor, SORTED["seen"])
    with service.database.read() as session:
        found = listing.list_workers(session, device=None, order="seen", after=after, limit=LISTED + 1)
        rows, following = page_of(found, LISTED, WORKER_ORDERS["seen"].sort_key)
        members = workers_of(session, rows, now, connected_since=service.conductor.connected_since())
    return {"members": members, "now": now, "minutes": MINUTES, "cursor": cursor, "following": following}


MINUTES = 5
LOSSES = timedelta(hours=24)

WorkerStatus: TypeAlias = Literal["working", "idle", "draining", "silent", "left"]

LAST: Mapping[WorkerStatus, int] = {"silent": 1, "left": 2}
"""Sort keys by status. Workers with any other status come first."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One live lease of a worker. `trial` is the number of the job's trial; None if the job has no trial."""

    device_uuid: str
    kind: str
    search_id: int
    trial: int | None
    granted_at: datetime


@dataclass(frozen=True, kw_only=True)
class Member:
    """A worker with its leases and recent results.

    Attributes:
        per_minute: finished evaluations per minute, averaged over the last `MINUTES` minutes.
        lost: number of leases that the worker lost within the last 24 hours (`LOSSES`).
    """

    worker: WorkerView
    status: WorkerStatus
    tasks: tuple[Task, ...]
    per_minute: float
    lost: int

    @property
    def slots(self) -> Sequence[tuple[Device, SlotView | None]]:
        """Each device with the view of its slot. The view is None if the slot has reported nothing."""
        by_device = {slot.device_uuid: slot for slot in self.worker.slots}
        return [(device, by_device.get(device.uuid)) for device in self.worker.devices]


def workers_of(
    session: Session, rows: Sequence[WorkerRow], now: datetime, *, connected_since: datetime
) -> tuple[Member, ...]:
    """Return connected workers by name, then silent workers, then workers that left.

    The order does not depend on the activity of the workers.

    Args:
        connected_since: workers that sent a request after this time count as connected.
    """
    load = Workload(session)
    current, finished = load.current(), load.finished(now - timedelta(minutes=MINUTES))
    lost = load.lost(now - LOSSES)
    members, sharers = [], Fleet(session).sharers(connected_since)
    for row in rows:
        tasks = tuple(_task(attempt) for attempt in current.get(row.id, ()))
        worker = worker_view(row, row.devices, now, sharers=sharers)
        members.append(
            Member(
                worker=worker,
                status=_status(worker, connected_since, busy=bool(tasks)),
                tasks=tasks,
                per_minute=finished.get(row.id, 0) / MINUTES,
                lost=lost.get(row.id, 0),
            )
        )
    return tuple(sorted(members, key=_place))


def _place(member: Member) -> tuple[int, str, str]:
    return LAST.get(member.status, 0), member.worker.name, member.worker.id


def _status(worker: WorkerView, connected_since: datetime, *, busy: bool) -> WorkerStatus:
    if worker.left_at is not None:
        return "left"
    if worker.seen_at < connected_since:
        return "silent"
    if worker.drain:
        return "draining"
    return "working" if busy else "idle"


def _task(row: AttemptRow) -> Task:
    trial = None if row.job.trial is None else row.job.trial.number
    return Task(
        device_uuid=row.device_uuid,
        kind=row.job.kind,
        search_id=row.job.search_id,
        trial=trial,
        granted_at=row.granted_at,
    )
