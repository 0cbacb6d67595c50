"""What goes to and fro beside the jobs: what a slot says of itself, how a report is handed in and received."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from evo.results.report import Report

Activity: TypeAlias = Literal["idle", "working", "waiting", "testing", "quarantined"]
"""What a slot does; ``waiting``: another process holds its device, ``testing``: a known kernel must succeed first."""


@dataclass(frozen=True, kw_only=True)
class SlotReport:
    """What a slot says of itself with each heartbeat.

    Attributes:
        detail: more of it in words, e.g. which process holds the device.
        attempt_id: the lease that it performs now, which alone the detail is about; others may wait behind it.
        fault: why the device is not to be trusted any more; said until the service has set it aside.
    """

    device_uuid: str
    activity: Activity
    detail: str | None = None
    attempt_id: int | None = None
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A report as a worker hands it in, with the token that says for which lease."""

    attempt_id: int
    token: str
    report: Report


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What became of one delivery of several.

    Attributes:
        status: ``accepted``; ``repeated``: it had been taken before; ``stale``: the lease ended before, drop the work;
            ``unknown``: no such attempt; ``refused``: the report does not answer the job, and never will.
        detail: why it was not taken; empty if it was.
    """

    attempt_id: int
    status: Literal["accepted", "repeated", "stale", "unknown", "refused"]
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class HeartbeatReply:
    """What the service wants the worker to know.

    Attributes:
        cancel: attempts to drop.
        drain: ask for no more work.
        quarantined: UUIDs of the devices that are set aside until a person clears them.
    """

    cancel: tuple[int, ...] = ()
    drain: bool = False
    quarantined: tuple[str, ...] = ()
