"""What the service shows of its state; the service serialises these classes and its clients read them back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from evo.ablation import Change, Effect
from evo.device import Device
from evo.job import Ablated, Activity, ConfirmReport, Stages
from evo.lifecycle import State
from evo.objective import Objective
from evo.outcome import Outcome
from evo.policy import Policy
from evo.promotion import Verdict
from evo.requirements import Requirements
from evo.search import Budget
from evo.target import place_text
from evo.timing import Timing
from evo.trial import Config, Value

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class SpaceView:
    """How large a space is; `valid_count` is None where it is too large to count."""

    product_size: int
    valid_count: int | None


@dataclass(frozen=True, kw_only=True)
class BestView:
    """The fastest measured trial so far."""

    number: int
    config: Config
    time_us: float


@dataclass(frozen=True, kw_only=True)
class RooflineView:
    """The least time the problem can take here, and the fraction of that limit the best trial reaches."""

    floor_us: float
    bound: str
    share_of_best: float | None


@dataclass(frozen=True, kw_only=True)
class ChampionView:
    """A promoted trial with the evidence it rests on.

    Attributes:
        place: where it was timed, and for which GPU its build was gated if that is another one; in words.
        retired_by: the name of who rolled it back or restored another; None where a better one replaced it.
    """

    id: int
    family: str
    problem: Mapping[str, Value]
    problem_key: str
    device_model: str
    objective: Objective
    search_id: int
    trial_number: int
    config: Config
    time_us: float
    current: bool
    promoted_at: datetime
    family_digest: str | None = None
    verdict: Verdict | None = None
    report: ConfirmReport | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    replaces: int | None = None
    retired_at: datetime | None = None
    retired_reason: str | None = None
    retired_by: str | None = None
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class ChallengeView:
    """One trial's challenge to the incumbent, and what came of it."""

    trial: int
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class ProvingView:
    """The confirmation or ablation that a search is at.

    Attributes:
        trial: the challenger's number; None for an ablation.
        since: when a worker took it up; None while it waits.
        detail: what that worker is doing of it, as it last said.
    """

    job: Literal["confirm", "ablate"]
    trial: int | None
    since: datetime | None = None
    detail: str | None = None


@dataclass(frozen=True, kw_only=True)
class WarmStartView:
    """Recorded results that a search begins with.

    Attributes:
        source: where they were recorded, as the submitter calls it.
        used: configs that are tried first; `invalid` are not in the space, and `spare` were more than can be used.
    """

    source: str
    used: int
    invalid: int
    spare: int


@dataclass(frozen=True, kw_only=True)
class WebhookView:
    """Who is told when a search ends.

    Attributes:
        attempts: deliveries tried so far; `error` is what the last one met with.
        given_up: it was tried for the last time.
    """

    url: str
    attempts: int = 0
    delivered_at: datetime | None = None
    error: str | None = None
    given_up: bool = False


@dataclass(frozen=True, kw_only=True)
class SearchView:
    """One search.

    Attributes:
        reason: why it ended: ``trials``, ``minutes``, ``exhausted``, ``stagnation``, or the failure in words.
        counts: trials by outcome kind.
        speedup: of the best trial over the fastest baseline.
        elapsed_s: of running, pauses left out.
        overhead_ms: median over trials of what the search itself cost: time in which no compiler and no device
            worked, though there was work to be had; `overhead_mean_ms` is the mean of the same.
        delivery_ms: median over trials of the time that leases and results were on their way; the device did not wait.
        priority: workers serve a search of higher priority first; of equal ones the older.
        cost: of running so far, where the budget gives a rate.
        warm_start: what of recorded results it was given to begin with.
        webhook: who is told when it ends, and whether that worked.
        requirements: what a device must have to be given work of it.
        proving: what is confirmed or ablated now.
        device_uuid: the one unit that is given work of it; None: any that fits.
    """

    id: int
    state: State
    reason: str | None
    family: str
    problem: Mapping[str, Value]
    problem_key: str
    device: Device
    objective: Objective
    strategy: str
    seed: int
    budget: Budget
    policy: Policy
    space: SpaceView
    counts: Mapping[str, int]
    asked: int
    finished: int
    best: BestView | None
    baselines: Mapping[str, Timing]
    fastest_baseline: str | None
    speedup: float | None
    roofline: RooflineView | None
    champion: ChampionView | None
    challenges: tuple[ChallengeView, ...]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    elapsed_s: float
    overhead_ms: float | None
    overhead_mean_ms: float | None = None
    delivery_ms: float | None = None
    priority: int = 0
    notes: str = ""
    archived: bool = False
    cost: float | None = None
    warm_start: WarmStartView | None = None
    webhook: WebhookView | None = None
    requirements: Requirements = field(default_factory=Requirements)
    device_uuid: str | None = None
    proving: ProvingView | None = None

    @property
    def place(self) -> str:
        """Where its times come from, in words."""
        return place_text(self.device, self.objective)

    def fits(self, device: Device) -> bool:
        """Whether a device may work for it: the same model, with what is required; the very unit if it is pinned."""
        same = all(getattr(device, name) == getattr(self.device, name) for name in ("kind", "model", "architecture"))
        return same and self.device_uuid in (None, device.uuid) and self.requirements.lacking(device) is None

    @property
    def estimated(self) -> bool:
        """Whether its times are estimates: nothing is run."""
        return self.device.kind == "estimate"


@dataclass(frozen=True, kw_only=True)
class AblationView:
    """One switch of a champion turned, and what came of it.

    Attributes:
        ablated: the samples, or why there are none; None while it waits, or where that was never measured.
        effect: what the samples say.
    """

    champion_id: int
    change: Change
    asked_at: datetime
    ended_at: datetime | None
    ablated: Ablated | None = None
    effect: Effect | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AttemptView:
    """One lease of one job."""

    id: int
    job: str
    state: str
    worker_id: str
    device_uuid: str
    granted_at: datetime
    expires_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class TrialView:
    """One trial.

    Attributes:
        suspect: so much faster than every baseline that a person should look.
        overhead_ms: time in which no compiler and no device worked on its account.
        delivery_ms: that its lease and its result were on their way.
        attempts: every lease of its evaluation and confirmations; only when one trial is asked for.
    """

    id: int
    search_id: int
    number: int
    config: Config
    origin: str
    parents: tuple[int, ...]
    outcome: Outcome | None
    time_us: float | None
    suspect: bool = False
    overhead_ms: float | None = None
    delivery_ms: float | None = None
    binary_digest: str | None = None
    stages: Stages | None = None
    artefacts: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    attempts: tuple[AttemptView, ...] = ()
    asked_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class FamilyView:
    """A registered family; `document` is its family.toml as data."""

    name: str
    digest: str
    title: str
    location: str | None
    document: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SlotView:
    """One device of a worker, as the worker last spoke of it.

    Attributes:
        activity: None before the first heartbeat.
        quarantined_at: since when it is set aside; a person clears it.
    """

    device_uuid: str
    activity: Activity | None = None
    detail: str | None = None
    quarantined_at: datetime | None = None
    quarantine_reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class WorkerView:
    """A worker and the devices it offers.

    Attributes:
        slots: in the order of `devices`.
        left_at: when it ended in order; None while it works, and also when it just fell silent.
        drain: it gets no more work, but finishes what it has.
        note: what troubles it, e.g. a full disk.
    """

    id: str
    name: str
    host: str
    devices: tuple[Device, ...]
    seen_at: datetime
    drain: bool = False
    slots: tuple[SlotView, ...] = ()
    left_at: datetime | None = None
    note: str | None = None


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was taken out of database and artefact store.

    Attributes:
        searches_thinned: champions rest on them; only the reports on their other trials went.
        bytes_kept: of artefacts, where they were counted.
    """

    searches_deleted: int = 0
    searches_thinned: int = 0
    artefacts_deleted: int = 0
    bytes_freed: int = 0
    bytes_kept: int | None = None


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a list; `next` is the cursor of the following part, None at the end."""

    items: tuple[Item, ...]
    next: str | None = None
