"""The tables. They store what `evo` decided and decide nothing; related rows are loaded only where a query says so."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, LargeBinary, MetaData, String, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from db.columns import Document, Moment
from evo.ablation import Change, Effect
from evo.access import Role
from evo.device import Device
from evo.job import Ablated, Activity, BaselineReport, ConfirmReport, Job, Report
from evo.lifecycle import State
from evo.objective import Objective
from evo.outcome import Outcome
from evo.policy import Policy
from evo.promotion import Verdict
from evo.requirements import Requirements
from evo.roofline import Roofline
from evo.search import Budget
from evo.trial import Config, Proposal, Value
from evo.view import WarmStartView

JobState: TypeAlias = Literal["queued", "leased", "done", "abandoned", "cancelled"]
AttemptState: TypeAlias = Literal["live", "done", "expired", "abandoned", "released", "cancelled"]


@dataclass(frozen=True, kw_only=True)
class SpaceSize:
    """Size of the product of all tunables, and how many of its points are valid (None: too many to count)."""

    product_size: int
    valid_count: int | None


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """Who is told when a search ends, and the key its message is signed with."""

    url: str
    secret: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All a promotion rests on: the interleaved samples, and the verdict with each rule."""

    report: ConfirmReport
    verdict: Verdict


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: Moment(), str: String()}  # noqa: RUF012 — SQLAlchemy reads a plain dict


class FamilyRow(Base):
    __tablename__ = "families"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(index=True)
    document: Mapped[dict[str, Any]] = mapped_column(Document(dict[str, Any]))
    location: Mapped[str | None]
    registered_at: Mapped[datetime]


class SearchRow(Base):
    """`active_s` holds the seconds it ran before `active_since`; None there means that its clock stands still.

    `revision` counts the turns of service processes that share it; `milestone` is the last one that brought more than
    trials asked and told. From both a process sees what it has to read before it goes on.
    """

    __tablename__ = "searches"
    __table_args__ = (Index(None, "state", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    family_digest: Mapped[str] = mapped_column(ForeignKey("families.digest"))
    problem: Mapped[Mapping[str, Value]] = mapped_column(Document(dict[str, Value]))
    problem_key: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    device_uuid: Mapped[str | None]
    objective: Mapped[Objective] = mapped_column(Document(Objective))
    strategy: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    budget: Mapped[Budget] = mapped_column(Document(Budget))
    policy: Mapped[Policy] = mapped_column(Document(Policy))
    warm_starts: Mapped[list[Config]] = mapped_column(Document(list[Config]))
    space: Mapped[SpaceSize] = mapped_column(Document(SpaceSize))
    roofline: Mapped[Roofline | None] = mapped_column(Document(Roofline))
    baselines: Mapped[BaselineReport | None] = mapped_column(Document(BaselineReport))
    state: Mapped[State] = mapped_column(String(16))
    reason: Mapped[str | None]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    active_s: Mapped[float] = mapped_column(default=0.0)
    active_since: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    milestone: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    priority: Mapped[int] = mapped_column(default=0, server_default=text("0"))
    notes: Mapped[str] = mapped_column(default="", server_default=text("''"))
    archived_at: Mapped[datetime | None]
    warm_start: Mapped[WarmStartView | None] = mapped_column(Document(WarmStartView))
    webhook: Mapped[Webhook | None] = mapped_column(Document(Webhook))
    requirements: Mapped[Requirements | None] = mapped_column(Document(Requirements))

    family: Mapped[FamilyRow] = relationship(lazy="raise")


class TrialRow(Base):
    """`told_before` is how many trials had ended when this one was asked, `finished_seq` its place among the ended.

    `overhead_ms` is what the search lost over it, `delivery_ms` what the lease and the result were on their way.
    """

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("search_id", "number"),
        UniqueConstraint("search_id", "config_key"),
        UniqueConstraint("search_id", "finished_seq"),
        Index(None, "search_id", "time_us", "number"),
        Index(None, "search_id", "outcome_kind"),
        Index(None, "search_id", "binary_digest"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    number: Mapped[int]
    config_key: Mapped[str]
    proposal: Mapped[Proposal] = mapped_column(Document(Proposal))
    told_before: Mapped[int]
    asked_at: Mapped[datetime]
    outcome: Mapped[Outcome | None] = mapped_column(Document(Outcome))
    outcome_kind: Mapped[str | None] = mapped_column(String(16))
    time_us: Mapped[float | None]
    finished_seq: Mapped[int | None]
    finished_at: Mapped[datetime | None]
    binary_digest: Mapped[str | None] = mapped_column(String(64))
    suspect: Mapped[bool] = mapped_column(default=False)
    overhead_ms: Mapped[float | None]
    delivery_ms: Mapped[float | None]


_CONFIRMS = text("kind = 'confirm'")


class JobRow(Base):
    """One unit of leased work; `seen` of a confirmation is how many trials had ended when the challenge began."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "search_id", "state"),
        Index("ix_jobs_confirmations", "search_id", "id", sqlite_where=_CONFIRMS, postgresql_where=_CONFIRMS),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    trial_id: Mapped[int | None] = mapped_column(ForeignKey("trials.id"), index=True)
    kind: Mapped[Literal["evaluate", "baseline", "confirm", "ablate"]] = mapped_column(String(16))
    state: Mapped[JobState] = mapped_column(String(16))
    payload: Mapped[Job] = mapped_column(Document(Job))
    incumbent_id: Mapped[int | None] = mapped_column(ForeignKey("champions.id"))
    seen: Mapped[int | None]
    verdict: Mapped[Verdict | None] = mapped_column(Document(Verdict))
    candidate_faults: Mapped[int] = mapped_column(default=0)
    worker_losses: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]

    search: Mapped[SearchRow] = relationship(lazy="raise")
    trial: Mapped[TrialRow | None] = relationship(lazy="raise")


_LIVE = text("state = 'live'")


class AttemptRow(Base):
    """One lease of one job; a report is taken only with its `token`, and only once."""

    __tablename__ = "attempts"
    __table_args__ = (
        Index("uq_attempts_live_job", "job_id", unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE),
        Index(None, "state", "expires_at"),
        Index(None, "worker_id", "state"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), index=True)
    token: Mapped[str] = mapped_column(String(64))
    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"))
    device_uuid: Mapped[str]
    state: Mapped[AttemptState] = mapped_column(String(16))
    granted_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    result: Mapped[Report | None] = mapped_column(Document(Report))

    job: Mapped[JobRow] = relationship(lazy="raise")


class WorkerRow(Base):
    """`left_at` is set by a worker that ended in order, until it registers again."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    host: Mapped[str]
    drain: Mapped[bool] = mapped_column(default=False)
    note: Mapped[str | None]
    registered_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    left_at: Mapped[datetime | None]

    devices: Mapped[list["DeviceRow"]] = relationship(lazy="raise", order_by="DeviceRow.uuid", viewonly=True)


class DeviceRow(Base):
    """A device as its worker last described it; only a person ends a quarantine."""

    __tablename__ = "devices"

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    uuid: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    model: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    activity: Mapped[Activity | None] = mapped_column(String(16))
    detail: Mapped[str | None]
    quarantined_at: Mapped[datetime | None]
    quarantine_reason: Mapped[str | None]


class ChampionRow(Base):
    """One promoted trial; of each key (family, problem_key, device_model, objective_key) one row is current."""

    __tablename__ = "champions"
    __table_args__ = (
        Index(
            "uq_champions_current",
            *("family", "problem_key", "device_model", "objective_key"),
            unique=True,
            sqlite_where=text("current"),
            postgresql_where=text("current"),
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    family: Mapped[str]
    family_digest: Mapped[str] = mapped_column(ForeignKey("families.digest"))
    problem: Mapped[Mapping[str, Value]] = mapped_column(Document(dict[str, Value]))
    problem_key: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    device_model: Mapped[str]
    objective: Mapped[Objective] = mapped_column(Document(Objective))
    objective_key: Mapped[str]
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    trial_id: Mapped[int] = mapped_column(ForeignKey("trials.id"))
    trial_number: Mapped[int]
    config: Mapped[Config] = mapped_column(Document(dict[str, Value]))
    time_us: Mapped[float]
    evidence: Mapped[Evidence] = mapped_column(Document(Evidence))
    replaces: Mapped[int | None] = mapped_column(ForeignKey("champions.id"))
    current: Mapped[bool]
    promoted_at: Mapped[datetime]
    retired_at: Mapped[datetime | None]
    retired_reason: Mapped[str | None]
    retired_by: Mapped[str | None]
    rolled_back: Mapped[bool] = mapped_column(default=False)


class AblationRow(Base):
    """One switch of a champion turned; `place` is its own in the job that measures it, None where no config has it.

    `ended_at` without `ablated`: it could not be, or was not measured.
    """

    __tablename__ = "ablations"

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"), index=True)
    champion_id: Mapped[int] = mapped_column(ForeignKey("champions.id"))
    job_id: Mapped[int | None] = mapped_column(ForeignKey("jobs.id"), index=True)
    place: Mapped[int | None]
    change: Mapped[Change] = mapped_column(Document(Change))
    asked_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    ablated: Mapped[Ablated | None] = mapped_column(Document(Ablated))
    effect: Mapped[Effect | None] = mapped_column(Document(Effect))
    environment: Mapped[Mapping[str, str] | None] = mapped_column(Document(dict[str, str]))


class ArtefactRow(Base):
    """What the file of this digest holds; the bytes lie beside the database."""

    __tablename__ = "artefacts"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    size: Mapped[int]
    media_type: Mapped[str]
    created_at: Mapped[datetime]


class EventRow(Base):
    """That something happened; what exactly stands in the row it names. `transaction` orders them, see `db.events`."""

    __tablename__ = "events"
    __table_args__ = (
        Index(None, "transaction", "id"),
        Index(None, "search_id", "transaction", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    transaction: Mapped[int] = mapped_column(BigInteger)
    kind: Mapped[Literal["trial", "search", "worker"]] = mapped_column(String(16))
    search_id: Mapped[int | None]
    trial_id: Mapped[int | None]
    worker_id: Mapped[str | None]


class TokenRow(Base):
    """An access token, of which only the SHA-256 is kept; `join`: it can be exchanged once for a worker's."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    name: Mapped[str]
    roles: Mapped[list[Role]] = mapped_column(Document(list[Role]))
    join: Mapped[bool] = mapped_column(default=False)
    worker_id: Mapped[str | None] = mapped_column(index=True)
    created_at: Mapped[datetime]
    created_by: Mapped[str]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class SessionRow(Base):
    """A browser that signed in with a token, and is out as soon as that token is."""

    __tablename__ = "sessions"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    token_id: Mapped[str] = mapped_column(ForeignKey("tokens.id"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class DeliveryRow(Base):
    """A message that a search ended; due at `next_at`, which is None once it was delivered or given up."""

    __tablename__ = "deliveries"
    __table_args__ = (Index(None, "next_at"), Index("uq_deliveries_search_id", "search_id", unique=True))

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int]
    url: Mapped[str]
    secret: Mapped[str]
    message: Mapped[str]
    created_at: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    next_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    error: Mapped[str | None]


class AnswerRow(Base):
    """What was answered to a request with an idempotency key; no status: it is being worked on, or was interrupted."""

    __tablename__ = "answers"
    __table_args__ = (Index(None, "asked_at"),)

    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    asked_at: Mapped[datetime]
    status: Mapped[int | None]
    headers: Mapped[list[tuple[str, str]] | None] = mapped_column(Document(list[tuple[str, str]]))
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
