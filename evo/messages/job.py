"""Messages between the service and its workers: jobs, leases, deliveries and heartbeats.

The service and the workers import these classes, and nothing from each other.
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
    """Reference to one version of a family.

    Attributes:
        digest: digest of the family's document, templates and includes. A worker refuses a lease if its own files have
            a different digest.
        location: absolute path of the folder or recording, which the worker opens on its own machine, or ``bundle:``
            followed by the digest of an artefact of the service. None for a built-in family.
        variant: True if the family is a variant of a search. Its binaries may equal those of other variants.
    """

    name: str
    digest: str
    location: str | None = None
    variant: bool = False


@dataclass(frozen=True, kw_only=True)
class SearchTerms:
    """Settings of a search that are part of every lease: family, problem, device, objective, policy and seed."""

    search_id: int
    family: FamilyRef
    problem: Mapping[str, Value]
    device: Device
    objective: Objective
    policy: Policy
    seed: int

    @cached_property
    def key(self) -> str:
        """Key under which a worker caches data of the search: the search's id and a digest of its settings.

        The id alone does not suffice because a new or restored database reuses ids for other searches.
        """
        return f"{self.search_id}-{hashlib.blake2b(repr(self).encode(), digest_size=12).hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Job that evaluates one trial: compiles it, checks its resources, verifies it, and times it with quick samples.

    Attributes:
        number: number of the trial.
        bars: times above which the measurement is shortened or stopped.
    """

    number: int
    config: Config
    bars: Bars = field(default_factory=Bars)
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Job that times every baseline of the family that can run on the worker."""

    kind: Literal["baseline"] = "baseline"


@dataclass(frozen=True, kw_only=True)
class Confirm:
    """Job that alternately times the challenger, the incumbent and the baselines, in fresh processes with new inputs.

    Attributes:
        incumbent: config of the incumbent; None if there is no incumbent to compare with.
        seed: seed of the new inputs.
        incumbent_family: the incumbent's family if the incumbent belongs to another variant; None if both have the same
            family.
        further: number of trials that are expected to challenge the incumbent after this one. It is shown to users;
            workers ignore it.
    """

    challenger: Config
    incumbent: Config | None
    seed: int
    incumbent_family: FamilyRef | None = None
    further: int = 0
    kind: Literal["confirm"] = "confirm"


@dataclass(frozen=True, kw_only=True)
class Ablate:
    """Job that alternately times a champion and changed versions of its config, in a fresh process.

    Attributes:
        champion: config of the champion.
        changed: the changed configs.
        seed: seed of the inputs.
    """

    champion: Config
    changed: tuple[Config, ...]
    seed: int
    kind: Literal["ablate"] = "ablate"


Job: TypeAlias = Evaluate | Baseline | Confirm | Ablate


@dataclass(frozen=True, kw_only=True)
class Lease:
    """One job, granted to one slot of one worker for a limited time.

    Attributes:
        attempt_id: identifies the lease.
        token: fencing token; a report with a different token is stale and refused.
        lease_s: seconds until the lease expires if no heartbeat renews it.
    """

    attempt_id: int
    token: str
    lease_s: float
    terms: SearchTerms
    job: Job


Activity: TypeAlias = Literal["idle", "working", "waiting", "exhausted", "testing", "quarantined"]
"""State of a slot. ``waiting`` means that another process holds the device; ``exhausted`` means
that the disk of the worker is full; ``testing`` means that a known-good kernel must succeed first.
"""


@dataclass(frozen=True, kw_only=True)
class SlotReport:
    """A slot's report about itself, sent with each heartbeat.

    Attributes:
        detail: text with details, e.g. which process holds the device; None if there are none.
        attempt_id: lease of the slot's current job, which `detail` describes, or of the job that waits for the device.
            None if there is no such job. The slot may hold more leases.
        fault: reason why the device is no longer reliable; None if it is reliable. The reason is sent with each
            heartbeat until the service has quarantined the device.
    """

    device_uuid: str
    activity: Activity
    detail: str | None = None
    attempt_id: int | None = None
    fault: str | None = None


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A report that a worker delivers, with the token of its lease."""

    attempt_id: int
    token: str
    report: Report


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Response to one delivery.

    Attributes:
        status: one of these words:
            ``accepted``: the report is stored.
            ``repeated``: the report had been accepted before.
            ``stale``: the lease has ended, e.g. because it expired. The worker must discard the result.
            ``unknown``: the attempt does not exist.
            ``refused``: the report does not match the job, so a retry would also fail.
        detail: reason why the delivery was not accepted; empty if it was.
        lacking: digests of artefacts that the accepted report names and the service does not have. The worker must
            upload them.
    """

    attempt_id: int
    status: Literal["accepted", "repeated", "stale", "unknown", "refused"]
    detail: str = ""
    lacking: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HeartbeatReply:
    """The service's instructions to a worker.

    Attributes:
        cancel: ids of the attempts that the worker must stop.
        drain: True if the worker must not request more work.
        quarantined: UUIDs of devices that get no work until a person clears them.
    """

    cancel: tuple[int, ...] = ()
    drain: bool = False
    quarantined: tuple[str, ...] = ()
