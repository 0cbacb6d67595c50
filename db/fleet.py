"""Workers and their devices."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.orm import Session, selectinload

from db.models import DeviceRow, WorkerRow
from evo.device import Device
from evo.errors import NotFound


class Fleet:
    """Queries over one session; whoever opened the session commits."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def register(self, worker_id: str, *, name: str, host: str, devices: Sequence[Device], now: datetime) -> WorkerRow:
        """Store a worker with exactly these devices."""
        row = self.session.get(WorkerRow, worker_id)
        if row is None:
            row = WorkerRow(id=worker_id, registered_at=now)
            self.session.add(row)
        row.name, row.host, row.seen_at, row.drain = name, host, now, False
        self.session.flush()
        self.session.execute(delete(DeviceRow).where(DeviceRow.worker_id == worker_id))
        self.session.add_all(
            DeviceRow(worker_id=worker_id, uuid=device.uuid, kind=device.kind, model=device.model, device=device)
            for device in devices
        )
        return row

    def worker(self, worker_id: str) -> WorkerRow:
        """One worker, without its devices."""
        if (row := self.session.get(WorkerRow, worker_id)) is None:
            raise NotFound(f"worker {worker_id!r} is not registered: register it first (PUT /workers/{worker_id})")
        return row

    def devices_of(self, worker_id: str) -> Sequence[DeviceRow]:
        self.worker(worker_id)
        return self.session.scalars(select(DeviceRow).where(DeviceRow.worker_id == worker_id)).all()

    def workers(self) -> Sequence[WorkerRow]:
        """Every worker with its devices, the one seen last first."""
        query = select(WorkerRow).options(selectinload(WorkerRow.devices))
        return self.session.scalars(query.order_by(WorkerRow.seen_at.desc(), WorkerRow.id)).all()

    def devices(self, seen_since: datetime) -> Sequence[DeviceRow]:
        """Devices of the workers heard of since then, in a stable order."""
        query = select(DeviceRow).join(WorkerRow).where(WorkerRow.seen_at >= seen_since)
        return self.session.scalars(query.order_by(DeviceRow.model, DeviceRow.uuid, DeviceRow.worker_id)).all()
