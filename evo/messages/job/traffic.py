"""Messages other than jobs: slot reports, deliveries of results, and heartbeats."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evo.trial.results.report import Report

Activity: TypeAlias = Literal["idle", "working", "waiting", "testing", "quarantined"]
"""State of a slot. ``waiting``: another process holds its device; ``testing``: a known kernel must succeed first."""


@dataclass(frozen=True, kw_only=True)
class SlotReport:
    """A slot's report on itself, sent with each heartbeat.

    Attributes:
        detail: details in words, e.g. which process holds the device.
        attempt_id: the lease that it works on, which `detail` is about; others may wait behind it.
        fault: why the device is not reliable any more; repeated until the service has quarantined it.
    """

    device_uuid: str
    activity: Activity
    detail: str | None = None
    attempt_id: int | None = None
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A report as a worker delivers it, with the token of its lease."""

    attempt_id: int
    token: str
    report: Report


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Response to one delivery.

    Attributes:
        status: ``accepted``; ``repeated``: accepted before; ``stale``: the lease has expired, drop the work;
            ``unknown``: no such attempt; ``refused``: the report does not answer the job, and repeating it is useless.
        detail: why it was not accepted; empty if it was.
        lacking: digests of artefacts that the accepted report names and the service does not have: store them.
    """

    attempt_id: int
    status: Literal["accepted", "repeated", "stale", "unknown", "refused"]
    detail: str = ""
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeartbeatReply:
    """Orders of the service to a worker.

    Attributes:
        cancel: attempts to drop.
        drain: request no more work.
        quarantined: UUIDs of devices that are set aside until a person clears them.
    """

    cancel: tuple[int, ...] = ()
    drain: bool = False
    quarantined: tuple[str, ...] = ()
