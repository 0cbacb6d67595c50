"""Repository of workers and their devices."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session, selectinload

from db.engine.events import Events
from db.models import DeviceRow, WorkerRow, table
from db.repositories.leases import Leases
from db.repositories.readable import readable
from evo.device import Device
from evo.device.kind import implemented_kinds
from evo.errors import Conflict, NotFound
from evo.messages.job import SlotReport
from evo.messages.worker_state import LONG_S
from evo.text.limits import LARGEST_ID

_WORKERS, _DEVICES = table(WorkerRow), table(DeviceRow)
_SLOT = (
    select(
        *(_WORKERS.c[name] for name in ("drain", "left_at", "seen_at", "incarnation", "host")),
        *(_DEVICES.c[name] for name in ("quarantined_at", "device")),
    )
    .select_from(
        _WORKERS.outerjoin(
            _DEVICES, (_DEVICES.c.worker_id == _WORKERS.c.id) & (_DEVICES.c.uuid == bindparam("device_uuid"))
        )
    )
    .where(_WORKERS.c.id == bindparam("worker"))
)
"""Query of `Fleet.slot`, built once because every claim runs it."""


@dataclass(frozen=True, kw_only=True)
class Availability:
    """A device of a worker, with the facts that determine whether the device may receive work.

    Attributes:
        incarnation: id of the process that registered the worker last; None if the process sent no id.
    """

    device: Device
    drain: bool
    quarantined: bool
    incarnation: str | None


class Superseded(Conflict):
    """Raised if another process registered as the same worker after the calling process."""

    def __init__(self, worker_id: str, host: str) -> None:
        super().__init__(
            f"another process (on host {host}) registered as worker {worker_id!r} after this process, so only that "
            "process gets jobs. "
            "Two workers must not share an id; start one of them with a different --data folder or a different --id"
        )


def check_incarnation(worker_id: str, row: Any, incarnation: str | None, seen_since: datetime) -> None:
    """Raise an error if another process registered as the worker after the calling process.

    If the calling process or the process that registered last sent no incarnation, there is no check. If the process
    that registered last is silent, it has ended, or the database was restored from an older backup. In both cases, the
    caller may register again.

    Args:
        incarnation: id of the calling process; None if the process sent no id.
        row: row of the worker, with at least `host`, `incarnation`, `left_at` and `seen_at`.
        seen_since: time since which a worker must have been seen to count as connected.

    Raises:
        Superseded: another process registered as this worker, and is connected.
        NotFound: another process registered as this worker, and is silent or has left.
    """
    if incarnation is None or row.incarnation in (None, incarnation):
        return
    if row.left_at is None and row.seen_at >= seen_since:
        raise Superseded(worker_id, row.host)
    raise NotFound(
        f"worker {worker_id!r} was registered by another process, which no longer sends requests",
        request=f"register it again first (PUT /workers/{worker_id})",
    )


class Fleet:
    """Reads and changes workers and devices within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def register(
        self,
        worker_id: str,
        *,
        name: str,
        host: str,
        devices: Sequence[Device],
        now: datetime,
        incarnation: str | None = None,
    ) -> WorkerRow:
        """Store a worker with exactly the given devices, and return it. Quarantined devices remain quarantined.

        Args:
            incarnation: id of the process that runs the worker from now on; None if the process sent no id.
        """
        row = self.session.get(WorkerRow, worker_id)
        if row is None:
            row = WorkerRow(id=worker_id, registered_at=now)
            self.session.add(row)
        row.name, row.host, row.seen_at, row.left_at, row.drain, row.note = name, host, now, None, False, None
        row.incarnation, row.contested_at = incarnation, None
        self.session.flush()
        offered = [device.uuid for device in devices]
        self.session.execute(delete(DeviceRow).where(DeviceRow.worker_id == worker_id, DeviceRow.uuid.not_in(offered)))
        for device in devices:
            known = self.session.get(DeviceRow, (worker_id, device.uuid))
            if known is None:
                self.session.add(_row(worker_id, device))
            else:
                known.kind, known.model, known.device, known.activity, known.detail = (
                    device.kind,
                    device.model,
                    device,
                    None,
                    None,
                )
        Events(self.session).worker_changed(worker_id)
        return row

    def contest(self, worker_id: str, now: datetime) -> None:
        """Record that two processes use the id of a worker, because an earlier process still sends requests."""
        row = self.worker(worker_id)
        if row.contested_at is None:
            Events(self.session).worker_changed(worker_id)
        row.contested_at = now

    def any_after(self, moment: datetime) -> bool:
        """Return True if a worker was seen after `moment`. For a future `moment`, True shows that a clock was ahead."""
        return self.session.scalar(select(WorkerRow.id).where(WorkerRow.seen_at > moment).limit(1)) is not None

    def put_off(self, by: timedelta, *, now: datetime, since: datetime) -> None:
        """Move `seen_at` of connected workers forward by the duration of an interruption, at most to `now`.

        Otherwise, the interruption would count as silence of the workers.

        Args:
            by: duration of the interruption.
            since: workers whose `seen_at` is at or after `since - by` count as connected.
        """
        for row in self.session.scalars(select(WorkerRow).where(WorkerRow.seen_at >= since - by)):
            row.seen_at = min(row.seen_at + by, now)

    def worker(self, worker_id: str) -> WorkerRow:
        """Return one worker, without its devices.

        Raises:
            NotFound: the worker is not registered.
        """
        if (row := self.session.get(WorkerRow, worker_id)) is None:
            raise NotFound(
                f"worker {worker_id!r} is not registered", request=f"register it first (PUT /workers/{worker_id})"
            )
        return row

    def is_connected(self, worker_id: str, seen_since: datetime) -> bool:
        """Return True if a worker was seen since `seen_since` and has not left."""
        row = self.session.get(WorkerRow, worker_id)
        return row is not None and row.left_at is None and row.seen_at >= seen_since

    def device(self, worker_id: str, uuid: str) -> DeviceRow:
        """Return one device of a worker.

        Raises:
            NotFound: the worker has no such device.
        """
        if (row := self.session.get(DeviceRow, (worker_id, uuid))) is None:
            raise NotFound(
                f"worker {worker_id!r} has no device {uuid!r}", request="GET /workers lists the devices of each worker"
            )
        return row

    def devices_of(self, worker_id: str) -> Sequence[DeviceRow]:
        """Return the devices of a worker, sorted by UUID.

        Raises:
            NotFound: the worker is not registered.
        """
        self.worker(worker_id)
        query = select(DeviceRow).where(DeviceRow.worker_id == worker_id)
        return self.session.scalars(query.order_by(DeviceRow.uuid)).all()

    def workers(self) -> Sequence[WorkerRow]:
        """Return every worker with its devices, most recently seen first. Workers that cannot be read are left out."""
        query = select(WorkerRow).options(selectinload(WorkerRow.devices))
        return readable(self.session, query.order_by(WorkerRow.seen_at.desc(), WorkerRow.id))

    def some(self, worker_ids: Collection[str]) -> Sequence[WorkerRow]:
        """Return the workers with these ids, with their devices. Ids of deleted workers are left out."""
        query = select(WorkerRow).options(selectinload(WorkerRow.devices)).where(WorkerRow.id.in_(worker_ids))
        return self.session.scalars(query.order_by(WorkerRow.id)).all()

    def devices(self, seen_since: datetime) -> Sequence[DeviceRow]:
        """Return the devices that may receive work, in a stable order.

        Such devices are not quarantined, and belong to connected workers that are not draining.
        """
        query = (
            select(DeviceRow)
            .join(WorkerRow)
            .where(WorkerRow.seen_at >= seen_since, WorkerRow.left_at.is_(None), WorkerRow.drain.is_(False))
            .where(DeviceRow.quarantined_at.is_(None))
        )
        return self.session.scalars(query.order_by(DeviceRow.model, DeviceRow.uuid, DeviceRow.worker_id)).all()

    def sharers(self, seen_since: datetime) -> dict[str, tuple[WorkerRow, ...]]:
        """Return the workers of each device that several connected workers offer, by device UUID.

        Devices that run no kernels are left out, because any number of workers may simulate them.
        """
        query = (
            select(DeviceRow.uuid, WorkerRow)
            .join(WorkerRow, WorkerRow.id == DeviceRow.worker_id)
            .where(
                WorkerRow.seen_at >= seen_since, WorkerRow.left_at.is_(None), DeviceRow.kind.in_(implemented_kinds())
            )
        )
        found: dict[str, tuple[WorkerRow, ...]] = {}
        for uuid, worker in self.session.execute(query.order_by(WorkerRow.id)):
            found[uuid] = (*found.get(uuid, ()), worker)
        return {uuid: workers for uuid, workers in found.items() if len(workers) > 1}

    def other_units(self, device: Device, seen_since: datetime) -> Sequence[Device]:
        """Return the other devices of the same model that may receive work."""
        query = (
            select(DeviceRow.device)
            .join(WorkerRow)
            .where(DeviceRow.kind == device.kind, DeviceRow.model == device.model, DeviceRow.uuid != device.uuid)
            .where(WorkerRow.seen_at >= seen_since, WorkerRow.left_at.is_(None), WorkerRow.drain.is_(False))
            .where(DeviceRow.quarantined_at.is_(None))
        )
        return self.session.scalars(query).all()

    def slot(self, worker_id: str, uuid: str, incarnation: str | None, *, seen_since: datetime) -> "Availability":
        """Return a device of a worker, and whether it may receive work.

        Args:
            seen_since: time since which a worker must have been seen to count as connected.

        Raises:
            NotFound: the worker does not exist, has left, does not have the device, or must register again.
            Superseded: another process registered as this worker after the process `incarnation`.
        """
        row = self.session.execute(_SLOT, {"worker": worker_id, "device_uuid": uuid}).first()
        if row is None:
            raise NotFound(
                f"worker {worker_id!r} is not registered", request=f"register it first (PUT /workers/{worker_id})"
            )
        check_incarnation(worker_id, row, incarnation, seen_since)
        if row.left_at is not None:
            raise NotFound(
                f"worker {worker_id!r} has left", request=f"register it again first (PUT /workers/{worker_id})"
            )
        if row.device is None:
            reason = f"worker {worker_id!r} has not registered a device {uuid!r}"
            raise NotFound(reason, request=f"register it first (PUT /workers/{worker_id})")
        return Availability(
            drain=row.drain,
            quarantined=row.quarantined_at is not None,
            device=row.device,
            incarnation=row.incarnation,
        )

    def find(self, worker_id: str) -> WorkerRow | None:
        """Return a worker without its devices, or None if it is not registered."""
        return self.session.get(WorkerRow, worker_id)

    def leave(self, worker_id: str, now: datetime, *, seen_since: datetime, incarnation: str | None = None) -> None:
        """Record that a worker has shut down normally. Its devices receive no more work.

        Args:
            seen_since: time since which a worker must have been seen to count as connected.
            incarnation: the calling process; None for processes without an incarnation, which are accepted.

        Raises:
            NotFound: the worker does not exist, or another process registered as this worker, and is silent or has
                left.
            Superseded: another process registered as this worker, and is connected.
        """
        row = self.worker(worker_id)
        check_incarnation(worker_id, row, incarnation, seen_since)
        row.left_at, row.note = now, None
        Events(self.session).worker_changed(worker_id)
        for device in self.devices_of(worker_id):
            device.activity = device.detail = device.attempt_id = None

    def waiting(self, worker_id: str) -> set[int]:
        """Return the ids of the attempts of a worker that wait for a device that another process holds."""
        rows = self.devices_of(worker_id)
        return {row.attempt_id for row in rows if row.activity == "waiting" and row.attempt_id is not None}

    def update_slots(self, worker_id: str, slots: Sequence[SlotReport], now: datetime) -> tuple[str, ...]:
        """Store the activity that a worker reports for its devices. Return the UUIDs of its quarantined devices.

        A device for which the worker reports a fault is quarantined.

        Args:
            slots: one report per device. Reports of unknown devices are ignored.
        """
        for search_id in Leases(self.session).searches_with_long_jobs(worker_id, now - timedelta(seconds=LONG_S)):
            Events(self.session).search_changed(search_id)  # pages then show the current step and the elapsed time
        reported = {slot.device_uuid: slot for slot in slots}
        rows = self.devices_of(worker_id)
        for row in rows:
            if (slot := reported.get(row.uuid)) is not None:
                row.activity, row.detail, row.attempt_id = slot.activity, slot.detail, _lease_id(slot.attempt_id)
                if slot.fault is not None and row.quarantined_at is None:
                    quarantine(row, slot.fault, now)
                    Events(self.session).worker_changed(worker_id)
        return tuple(row.uuid for row in rows if row.quarantined_at is not None)


def _lease_id(attempt_id: int | None) -> int | None:
    """Return `attempt_id` if it is in the range of lease ids, else None."""
    return attempt_id if attempt_id is not None and 0 < attempt_id <= LARGEST_ID else None


def quarantine(row: DeviceRow, reason: str, now: datetime) -> None:
    row.quarantined_at, row.quarantine_reason = now, reason


def clear(row: DeviceRow) -> None:
    row.quarantined_at = row.quarantine_reason = None


def _row(worker_id: str, device: Device) -> DeviceRow:
    return DeviceRow(worker_id=worker_id, uuid=device.uuid, kind=device.kind, model=device.model, device=device)
