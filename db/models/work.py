"""Tables of trials, jobs, attempts (leases) of jobs, and workers with their devices."""

from datetime import datetime
from typing import Literal, TypeAlias

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from db.models.columns import NUMBERED_ONCE, Base, Document
from db.models.search import SearchRow
from evo.device import Device
from evo.messages.job import Activity, Job
from evo.promotion import Verdict
from evo.promotion.leading import Confirmation
from evo.trial import Proposal
from evo.trial.outcome import Outcome
from evo.trial.results import Report

JobState: TypeAlias = Literal["queued", "leased", "done", "abandoned", "cancelled"]
AttemptState: TypeAlias = Literal["live", "done", "expired", "abandoned", "released", "cancelled"]


_CONFIRMED = text("quick_us IS NOT NULL")
_JOINT = text("second_cost IS NOT NULL")


_OUTCOME_KIND = String(16).with_variant(String(32), "postgresql")
"""Type of the outcome column. On SQLite, migrations do not increase the length, because SQLite does not enforce it."""


class TrialRow(Base):
    """One trial of a search and its outcome.

    `told_before` is the number of trials that had ended when this trial was proposed. `finished_seq` is the position of
    this trial among the ended trials, from 0; None while it is pending. `overhead_ms` is the time for this trial in
    which the worker neither compiled nor used the device, although work was available; None if unknown. `delivery_ms`
    is the time from lease to result, without the time that the worker spent on the trial; None if no worker delivered a
    result. `suspect` is True if the speed-up over the fastest baseline exceeds `Policy.suspect_speedup`.

    Trials are ranked by `cost`: the time or, if the search has a metric, the cost by this metric. `cost` is None if the
    trial has no time, or if a confirmation found its kernel invalid. `second_cost` is the cost by the second objective;
    None if `cost` is None, or if the search has one objective. `time_us` is the displayed time: the confirmed time if
    the trial was confirmed, else the median of the quick samples. `quick_us` and `confirmed` are None until the trial
    is confirmed. Then `quick_us` is the median of the quick samples, and `confirmed` is the result of the confirmation.
    """

    __tablename__ = "trials"
    __table_args__ = (
        UniqueConstraint("search_id", "number"),
        UniqueConstraint("search_id", "config_key"),
        UniqueConstraint("search_id", "finished_seq"),
        Index(None, "search_id", "time_us", "number"),
        Index(None, "search_id", "cost", "number"),
        Index(None, "search_id", "outcome_kind"),
        Index(None, "search_id", "binary_digest"),
        Index("ix_trials_confirmed", "search_id", "cost", sqlite_where=_CONFIRMED, postgresql_where=_CONFIRMED),
        Index("ix_trials_joint", "search_id", "second_cost", sqlite_where=_JOINT, postgresql_where=_JOINT),
        NUMBERED_ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    search_id: Mapped[int] = mapped_column(ForeignKey("searches.id"))
    number: Mapped[int]
    config_key: Mapped[str]
    proposal: Mapped[Proposal] = mapped_column(Document(Proposal))
    told_before: Mapped[int]
    asked_at: Mapped[datetime]
    outcome: Mapped[Outcome | None] = mapped_column(Document(Outcome))
    outcome_kind: Mapped[str | None] = mapped_column(_OUTCOME_KIND)
    time_us: Mapped[float | None]
    cost: Mapped[float | None]
    second_cost: Mapped[float | None]
    quick_us: Mapped[float | None]
    confirmed: Mapped[Confirmation | None] = mapped_column(Document(Confirmation))
    finished_seq: Mapped[int | None]
    finished_at: Mapped[datetime | None]
    binary_digest: Mapped[str | None] = mapped_column(String(64))
    suspect: Mapped[bool] = mapped_column(default=False)
    overhead_ms: Mapped[float | None]
    delivery_ms: Mapped[float | None]


_CONFIRMS = text("kind = 'confirm'")


class JobRow(Base):
    """One unit of work that is leased to workers.

    `trial_id` is None for baselines and ablations. `incumbent_id` is the champion that the trial of a confirmation
    challenges; None if there is no champion. `seen` is the number of trials that had ended when the confirmation was
    queued. `verdict` is the result of the confirmation; None until the confirmation has ended. These three are None for
    other jobs.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        Index(None, "search_id", "state"),
        Index("ix_jobs_confirmations", "search_id", "id", sqlite_where=_CONFIRMS, postgresql_where=_CONFIRMS),
        NUMBERED_ONCE,
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
    """One lease of one job. Its report is accepted once, and only with the fencing token `token`.

    `ended_at` and `result` are None while the lease is live. `result` stays None if the lease ends without a report.
    The row is kept even if the worker is deleted.
    """

    __tablename__ = "attempts"
    __table_args__ = (
        Index("uq_attempts_live_job", "job_id", unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE),
        Index(None, "state", "expires_at"),
        Index(None, "worker_id", "state"),
        NUMBERED_ONCE,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(ForeignKey("jobs.id"), index=True)
    token: Mapped[str] = mapped_column(String(64))
    worker_id: Mapped[str]
    device_uuid: Mapped[str]
    state: Mapped[AttemptState] = mapped_column(String(16))
    granted_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    result: Mapped[Report | None] = mapped_column(Document(Report))

    job: Mapped[JobRow] = relationship(lazy="raise")


class WorkerRow(Base):
    """A worker and the process that registered last as this worker.

    `left_at` is set when the worker shuts down normally, and cleared when the worker registers again. `incarnation`
    identifies the process that registered last; None if that process sent no id. `note` states the problems that the
    worker reported; None if there are none. `contested_at` is set if an earlier process sends a request after this
    registration, because two processes then use the same worker id. The value is the time of the last such request.
    """

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    host: Mapped[str]
    drain: Mapped[bool] = mapped_column(default=False)
    note: Mapped[str | None]
    registered_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    left_at: Mapped[datetime | None]
    incarnation: Mapped[str | None] = mapped_column(String(64))
    contested_at: Mapped[datetime | None]

    devices: Mapped[list["DeviceRow"]] = relationship(lazy="raise", order_by="DeviceRow.uuid", viewonly=True)


class DeviceRow(Base):
    """A device as last reported by its worker. Only a person can end its quarantine.

    `quarantined_at` and `quarantine_reason` are None if the device is not quarantined. `activity` is None until the
    worker reports it after a registration. `attempt_id` is the lease that `detail` describes; None if there is no such
    lease.
    """

    __tablename__ = "devices"

    worker_id: Mapped[str] = mapped_column(ForeignKey("workers.id"), primary_key=True)
    uuid: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    model: Mapped[str]
    device: Mapped[Device] = mapped_column(Document(Device))
    activity: Mapped[Activity | None] = mapped_column(String(16))
    detail: Mapped[str | None]
    attempt_id: Mapped[int | None]
    quarantined_at: Mapped[datetime | None]
    quarantine_reason: Mapped[str | None]
