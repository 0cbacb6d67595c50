"""Builds views of families and workers from their database rows."""

from collections.abc import Sequence
from datetime import datetime

from db.models import DeviceRow, FamilyRow, WorkerRow
from evo.messages.view import FamilyView, SlotView, WorkerView


def family_view(row: FamilyRow) -> FamilyView:
    return FamilyView(
        name=row.name,
        digest=row.digest,
        title=str(row.document.get("title", row.name)),
        location=row.location,
        document=row.document,
    )


def worker_view(row: WorkerRow, devices: Sequence[DeviceRow], now: datetime) -> WorkerView:
    return WorkerView(
        id=row.id,
        name=row.name,
        host=row.host,
        devices=tuple(each.device for each in devices),
        seen_at=row.seen_at,
        drain=row.drain,
        slots=tuple(_slot_view(each) for each in devices),
        left_at=row.left_at,
        note=_note(row),
        silent_s=max(0.0, (now - row.seen_at).total_seconds()),
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
