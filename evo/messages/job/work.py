"""Jobs of the service for a worker, and the leases that grant them."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from evo.device import Device
from evo.promotion.policy import Policy
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.timing import Bars


@dataclass(frozen=True, kw_only=True)
class FamilyRef:
    """Exact reference to a family.

    Attributes:
        digest: digest over document, templates and includes; a worker refuses a lease whose digest it cannot reproduce.
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
        """Key of the search for what a worker remembers of it: its id and a digest of its terms.

        The id alone is not enough: a restored or new database gives ids again, to other searches.
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
        attempt_id: identifies the lease; `token` fences it: a report with another token is stale.
        lease_s: seconds until it expires unless a heartbeat renews it.
    """

    attempt_id: int
    token: str
    lease_s: float
    terms: SearchTerms
    job: Job
