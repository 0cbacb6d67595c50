"""REST routes of workers: registration, heartbeats, draining, and quarantine of devices."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from api.auth.caller import caller
from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.paging import SORTED, PageQuery, page_of, parse_cursor
from api.http.routing import rest_router
from api.scheduler.results.validation import check_figures
from api.schemas import DeviceId, Heartbeat, Incarnation, Reason, WorkerBody, WorkerId
from api.views import worker_view
from db.engine.events import Events
from db.queries import listing
from db.queries.listing import WORKER_ORDERS, WorkerOrder
from db.repositories.fleet import Fleet, clear, quarantine
from evo.device import Device, kinds
from evo.errors import InvalidInput
from evo.messages.job import HeartbeatReply
from evo.messages.view import Page, WorkerView
from evo.text.limits import refuse_invisible, refuse_unaddressable
from evo.text.suggestion import unknown

router = rest_router("/workers", tag="workers")


class WorkerQuery(PageQuery):
    """Filters and order of the list of workers.

    To read several pages, sort by `id`. With `seen`, the order changes between pages: a worker moves to the front
    whenever the service receives a request from it.
    """

    device: str | None = Field(default=None, description="a device kind or a device model")
    sort: WorkerOrder = "seen"


@router.put("/{worker_id}")
@allow("worker")
def register_worker(worker_id: WorkerId, body: WorkerBody, service: ServiceDep) -> WorkerView:
    """Register a worker that starts.

    The leases of an earlier process of the same worker end, and their jobs are queued again.
    """
    who = caller()
    check_figures("devices", body.devices)
    for number, device in enumerate(body.devices):
        if device.uuid in [other.uuid for other in body.devices[:number]]:
            raise InvalidInput(f"devices.{number}.uuid", f"{device.uuid!r:.100} is given twice; keep one")
        refuse_unaddressable(f"devices.{number}.uuid", device.uuid)
        _check_texts(f"devices.{number}", device)
        _check_kind(f"devices.{number}.kind", device)
    service.conductor.register_worker(
        worker_id,
        name=body.name or _usual_name(body),
        host=body.host,
        devices=body.devices,
        token_id=who.token_id if who.unbound else None,
        incarnation=body.incarnation,
    )
    return _view(service, worker_id)


def _usual_name(body: WorkerBody) -> str:
    """Return the default name of a worker.

    This is the name of the worker's token if `worker` is the token's only role, else the worker's host.
    """
    who = caller()
    return who.name if who.token_id is not None and who.roles == {"worker"} else body.host


def _check_texts(field: str, device: Device) -> None:
    named = {"model": device.model, "architecture": device.architecture}
    versions = {f"software.{name}": f"{name} {version}" for name, version in device.software.items()}
    limits = {f"limits.{name}": name for name in device.limits}
    for name, text in (named | versions | limits).items():
        refuse_invisible(f"{field}.{name}", text)


def _check_kind(field: str, device: Device) -> None:
    """Refuse a device kind that this service does not know, because every search would fail on such a device."""
    if device.kind not in kinds():
        known = unknown(device.kind, kinds(), "device kinds")
        raise InvalidInput(field, f"{known}; install the package that adds the kind on the service's machine")


@router.get("")
@allow("viewer")
def list_workers(query: Annotated[WorkerQuery, Query()], service: ServiceDep) -> Page[WorkerView]:
    """Return workers with their devices, latest seen first by default."""
    with service.database.read() as session:
        after = parse_cursor(query.cursor, SORTED[query.sort])
        found = listing.list_workers(session, device=query.device, order=query.sort, after=after, limit=query.limit + 1)
        rows, following = page_of(found, query.limit, WORKER_ORDERS[query.sort].sort_key)
        now, sharers = service.conductor.clock(), Fleet(session).sharers(service.conductor.connected_since())
        items = tuple(worker_view(row, row.devices, now, sharers=sharers) for row in rows)
        return Page(items=items, next=following)


@router.delete("/{worker_id}", status_code=204)
@allow("worker", "admin")
def leave(worker_id: WorkerId, service: ServiceDep, incarnation: Annotated[Incarnation | None, Query()] = None) -> None:
    """Report that a worker shuts down.

    The jobs of the worker are queued again without counting a failure, and its devices get no more work.
    """
    service.conductor.leave(worker_id, incarnation=incarnation)


@router.post("/{worker_id}/heartbeat")
@allow("worker")
def heartbeat(worker_id: WorkerId, body: Heartbeat, service: ServiceDep) -> HeartbeatReply:
    """Renew leases and report the activity of the slots. The response lists leases to drop and quarantined devices."""
    return service.conductor.heartbeat(
        worker_id, body.attempts, slots=body.slots, note=body.note, incarnation=body.incarnation
    )


@router.post("/{worker_id}/drain")
@allow("admin")
def drain_worker(worker_id: WorkerId, service: ServiceDep) -> WorkerView:
    """Grant no more jobs to a worker. The worker finishes the jobs that it has.

    This state lasts until the worker is resumed or restarts.
    """
    return _drained(service, worker_id, drain=True)


@router.post("/{worker_id}/resume")
@allow("admin")
def resume_worker(worker_id: WorkerId, service: ServiceDep) -> WorkerView:
    """Lease jobs to a drained worker again."""
    view = _drained(service, worker_id, drain=False)
    service.wakeup.notify()
    return view


@router.post("/{worker_id}/devices/{device_uuid}/quarantine")
@allow("worker", "admin")
def quarantine_device(worker_id: WorkerId, device_uuid: DeviceId, body: Reason, service: ServiceDep) -> WorkerView:
    """Quarantine a device. It gets no work until an administrator clears it."""
    with service.database.write() as session:
        row = Fleet(session).device(worker_id, device_uuid)
        if row.quarantined_at is None:
            quarantine(row, body.reason, service.conductor.clock())
            Events(session).worker_changed(worker_id)
    return _view(service, worker_id)


@router.post("/{worker_id}/devices/{device_uuid}/clear")
@allow("admin")
def clear_device(worker_id: WorkerId, device_uuid: DeviceId, service: ServiceDep) -> WorkerView:
    """End the quarantine of a device, after it was inspected or repaired."""
    with service.database.write() as session:
        clear(Fleet(session).device(worker_id, device_uuid))
        Events(session).worker_changed(worker_id)
    service.wakeup.notify()
    return _view(service, worker_id)


def _drained(service: ServiceDep, worker_id: str, *, drain: bool) -> WorkerView:
    with service.database.write() as session:
        Fleet(session).worker(worker_id).drain = drain
        Events(session).worker_changed(worker_id)
    return _view(service, worker_id)


def _view(service: ServiceDep, worker_id: str) -> WorkerView:
    with service.database.read() as session:
        fleet, now = Fleet(session), service.conductor.clock()
        sharers = fleet.sharers(service.conductor.connected_since())
        return worker_view(fleet.worker(worker_id), fleet.devices_of(worker_id), now, sharers=sharers)
