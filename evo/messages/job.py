"""Messages between the service and its workers: jobs, leases, deliveries and heartbeats.

Service and workers import these classes, and import nothing from each other.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from evo.device import Device
from evo.promotion.policy import Policy
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.results.report import Report
from evo.trial.timing import Bars


@dataclass(frozen=True, kw_only=True)
class FamilyRef:
    """Exact reference to a family.

    Attributes:
        digest: digest over document, templates and includes; a worker refuses a lease if its own files have another
            digest.
        location: absolute path of the folder or recording on the submitting machine, or ``bundle:`` and the digest of
            an artefact of the service; None for a built-in family.
        variant: True for a variant of a family, whose binaries may equal those of other variants.
    """

    name: str
    digest: str
    location: str | None = None
    variant: bool = False


@dataclass(frozen=True, kw_only=True)
class SearchTerms:
    """Terms shared by every job of one search."""

    search_id: int
    family: FamilyRef
    problem: Mapping[str, Value]
    device: Device
    objective: Objective
    policy: Policy
    seed: int

    @cached_property
    def key(self) -> str:
        """Key under which a worker caches data of the search: the search's id and a digest of its terms.

        The id alone is not enough: a restored or new database reuses ids for other searches.
        """
        return f"{self.search_id}-{hashlib.blake2b(repr(self).encode(), digest_size=12).hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Evaluate one trial: compile, check resources, verify, and time it with quick samples."""

    number: int
    config: Config
    bars: Bars = field(default_factory=Bars)
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Time every baseline of the family that can run here."""

    kind: Literal["baseline"] = "baseline"


@dataclass(frozen=True, kw_only=True)
class Confirm:
    """Interleave challenger, incumbent and baselines in a fresh process with fresh inputs.

    Attributes:
        incumbent_family: the incumbent's family if it is another variant of the challenger's; None: the same family.
    """

    challenger: Config
    incumbent: Config | None
    seed: int
    incumbent_family: FamilyRef | None = None
    kind: Literal["confirm"] = "confirm"


@dataclass(frozen=True, kw_only=True)
class Ablate:
    """Interleave a champion with configs that differ from it by one change each, in a fresh process."""

    champion: Config
    changed: tuple[Config, ...]
    seed: int
    kind: Literal["ablate"] = "ablate"


Job: TypeAlias = Evaluate | Baseline | Confirm | Ablate


@dataclass(frozen=True, kw_only=True)
class Lease:
    """One job, granted to one slot of one worker until it expires.

    Attributes:
        attempt_id: identifies the lease; a report whose `token` differs is stale (fencing).
        lease_s: seconds until it expires unless a heartbeat renews it.
    """

    attempt_id: int
    token: str
    lease_s: float
    terms: SearchTerms
    job: Job


Activity: TypeAlias = Literal["idle", "working", "waiting", "testing", "quarantined"]
"""State of a slot. ``waiting``: another process holds its device; ``testing``: a known kernel must succeed first."""


@dataclass(frozen=True, kw_only=True)
class SlotReport:
    """A slot's report on itself, sent with each heartbeat.

    Attributes:
        detail: text with details, e.g. which process holds the device.
        attempt_id: the lease on which the slot works, and to which `detail` refers; the slot may hold further leases.
        fault: why the device is no longer reliable; sent with each heartbeat until the service has quarantined the
            device.
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
        detail: why the delivery was not accepted; empty if it was.
        lacking: digests of artefacts that the accepted report names and the service lacks; the worker must upload them.
    """

    attempt_id: int
    status: Literal["accepted", "repeated", "stale", "unknown", "refused"]
    detail: str = ""
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeartbeatReply:
    """Orders of the service to a worker.

    Attributes:
        cancel: ids of attempts that the worker must drop.
        drain: True if the worker must request no more work.
        quarantined: UUIDs of devices that get no work until a person clears them.
    """

    cancel: tuple[int, ...] = ()
    drain: bool = False
    quarantined: tuple[str, ...] = ()
