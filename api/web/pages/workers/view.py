"""Content of the workers page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from sqlalchemy.orm import Session

from api.views import worker_view
from db.models import AttemptRow, WorkerRow
from db.repositories.census import Workload
from evo.device import Device
from evo.messages.view import SlotView, WorkerView

MINUTES = 5
LOSSES = timedelta(hours=24)

WorkerStatus: TypeAlias = Literal["working", "idle", "draining", "silent", "left"]

LAST: Mapping[WorkerStatus, int] = {"silent": 1, "left": 2}
"""Workers shown after all others."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One live lease, in words."""

    device_uuid: str
    kind: str
    search_id: int
    trial: int | None
    granted_at: datetime


@dataclass(frozen=True, kw_only=True)
class Member:
    """A worker.

    Attributes:
        per_minute: results per minute over the last `MINUTES`.
        lost: leases it lost within `LOSSES`.
    """

    worker: WorkerView
    status: WorkerStatus
    tasks: tuple[Task, ...]
    per_minute: float
    lost: int

    @property
    def slots(self) -> Sequence[tuple[Device, SlotView | None]]:
        """Each device with the activity of its slot."""
        by_device = {slot.device_uuid: slot for slot in self.worker.slots}
        return [(device, by_device.get(device.uuid)) for device in self.worker.devices]


def workers_of(
    session: Session, rows: Sequence[WorkerRow], now: datetime, *, connected_since: datetime
) -> tuple[Member, ...]:
    """Return the workers by name, those that left last. The order is stable while the page is open."""
    load = Workload(session)
    current, finished = load.current(), load.finished(now - timedelta(minutes=MINUTES))
    lost = load.lost(now - LOSSES)
    members = []
    for row in rows:
        tasks = tuple(_task(attempt) for attempt in current.get(row.id, ()))
        worker = worker_view(row, row.devices, now)
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
