"""Views of families, workers and their slots."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evo.device import Device
from evo.messages.job import Activity
from evo.messages.view.page import Deferred


@dataclass(frozen=True, kw_only=True)
class FamilyView:
    """A registered family. `document` is the content of its family.toml.

    `location` is the path of the files on the workers, or the reference of an uploaded bundle; None for a built-in
    family.
    """

    name: str
    digest: str
    title: str
    location: str | None
    document: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SlotView:
    """One device of a worker, as last reported by the worker.

    Attributes:
        activity: state of the slot; None before the first heartbeat.
        detail: text with details of the activity, e.g. the current step; None if there are none.
        quarantined_at, quarantine_reason: when and why the device was quarantined; None if it is not in quarantine.
    """

    device_uuid: str
    activity: Activity | None = None
    detail: str | None = None
    quarantined_at: datetime | None = None
    quarantine_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class WorkerView(Deferred):
    """A worker and its devices.

    Attributes:
        slots: state of each device, in the order of `devices`.
        silent_s: seconds since `seen_at` on the service's clock, which may differ from the reader's clock. None if
            unknown.
        left_at: time at which the worker shut down normally. None while it runs, and if it stopped sending messages
            without shutting down.
        drain: True if the worker finishes its current work but gets no new work.
        note: problems of the worker, e.g. a full disk; None if there are none.
    """

    id: str
    name: str
    host: str
    devices: tuple[Device, ...]
    seen_at: datetime
    drain: bool = False
    slots: tuple[SlotView, ...] = ()
    left_at: datetime | None = None
    silent_s: float | None = None
    note: str | None = None
