"""Workers: who they are, what they offer, and that they still live."""

from typing import Annotated

from fastapi import APIRouter, Path

from api.deps import ServiceDep
from api.schemas import Heartbeat, WorkerBody
from api.views import worker_view
from db.fleet import Fleet
from evo.job import HeartbeatReply
from evo.view import Page, WorkerView

router = APIRouter(prefix="/workers", tags=["workers"])

WorkerId = Annotated[str, Path(min_length=1, max_length=200)]


@router.put("/{worker_id}")
def register_worker(worker_id: WorkerId, body: WorkerBody, service: ServiceDep) -> WorkerView:
    """Register a worker that starts: leases it held before are lost, and their jobs queued again at once."""
    service.conductor.register_worker(worker_id, name=body.name, host=body.host, devices=body.devices)
    with service.database.read() as session:
        fleet = Fleet(session)
        return worker_view(fleet.worker(worker_id), fleet.devices_of(worker_id))


@router.get("")
def list_workers(service: ServiceDep) -> Page[WorkerView]:
    """Every worker, the one heard of last first."""
    with service.database.read() as session:
        return Page(items=tuple(worker_view(row, row.devices) for row in Fleet(session).workers()))


@router.post("/{worker_id}/heartbeat")
def heartbeat(worker_id: WorkerId, body: Heartbeat, service: ServiceDep) -> HeartbeatReply:
    """Renew leases; the answer names those to drop."""
    return service.conductor.heartbeat(worker_id, body.attempts)
