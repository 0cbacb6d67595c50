"""Builds views of families and workers from their database rows."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from db.models import DeviceRow, FamilyRow, WorkerRow
from evo.device import Device
from evo.messages.view import FamilyView, SlotView, WorkerView


def family_view(row: FamilyRow) -> FamilyView:
    return FamilyView(
        name=row.name,
        digest=row.digest,
        title=str(row.document.get("title", row.name)),
        location=row.location,
        document=row.document,
    )


def worker_view(
    row: WorkerRow,
    devices: Sequence[DeviceRow],
    now: datetime,
    *,
    sharers: Mapping[str, Sequence[WorkerRow]] | None = None,
) -> WorkerView:
    """Return the view of a worker.

    Args:
        sharers: connected workers by device UUID, for each device that several workers offer (`Fleet.sharers`). If
            None, the view has no warnings about such devices.
    """
    return WorkerView(
        id=row.id,
        name=row.name,
        host=row.host,
        devices=tuple(each.device for each in devices),
        seen_at=row.seen_at,
        drain=row.drain,
        slots=tuple(_slot_view(each) for each in devices),
        left_at=row.left_at,
        note="; ".join(filter(None, (*_shared(row, devices, sharers or {}), _note(row)))) or None,
        silent_s=max(0.0, (now - row.seen_at).total_seconds()),
    )


def _shared(row: WorkerRow, devices: Sequence[DeviceRow], sharers: Mapping[str, Sequence[WorkerRow]]) -> Iterator[str]:
    """Yield a warning for each device that another connected worker also offers."""
    for device in devices if row.left_at is None else ():
        others = [each for each in sharers.get(device.uuid, ()) if each.id != row.id]
        if others:
            yield shared_text(device.device, others)


def shared_text(device: Device, others: Sequence[WorkerRow]) -> str:
    """Return a warning that names the other workers of a device, the effect on measurements, and the remedy."""
    named = " and ".join(f"{each.name} on {each.host} (id {each.id})" for each in others)
    return (
        f"{device.model} ({device.uuid}) is also offered by worker {named}: their measurements may overlap and "
        "disturb each other (workers on one machine that use the same temporary folder take turns); stop all "
        "workers of this device except one"
    )


def _note(row: WorkerRow) -> str | None:
    """Return the problems of a worker as text, or None if there are none.

    The text contains the note that the worker reported, and a warning if two processes use its id.
    """
    contested = row.contested_at
    twice = (
        contested
        and "two processes use the id of this worker; the earlier process last sent a request at "
        f"{contested:%Y-%m-%d %H:%M} UTC"
    )
    return "; ".join(each for each in (twice, row.note) if each) or None


def _slot_view(row: DeviceRow) -> SlotView:
    return SlotView(
        device_uuid=row.uuid,
        activity=row.activity,
        detail=row.detail,
        quarantined_at=row.quarantined_at,
        quarantine_reason=row.quarantine_reason,
    )
