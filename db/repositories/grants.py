"""Inserts new trials, jobs and leases in bulk. The inserts use columns, not ORM objects, because they are frequent."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert
from sqlalchemy.orm import Session
from sqlalchemy.sql.dml import ReturningInsert

from db.models import AttemptRow, Base, JobRow, TrialRow, table
from evo.messages.job import Evaluate, Job
from evo.trial import Trial


def _adding(row: type[Base]) -> ReturningInsert[int]:
    """Return a statement that inserts rows and returns their ids in the order of the rows."""
    into = table(row)
    return insert(into).returning(into.c.id, sort_by_parameter_order=True)


_TRIALS, _JOBS, _ATTEMPTS = _adding(TrialRow), _adding(JobRow), _adding(AttemptRow)


@dataclass(frozen=True, kw_only=True)
class ProposedTrial:
    """A newly proposed trial with its evaluation job.

    Attributes:
        told_before: number of trials that had ended when this trial was proposed.
    """

    trial: Trial
    config_key: str
    told_before: int
    at: datetime
    job: Evaluate


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A device that receives leases. The leases begin at `now`, and expire after `lease_s` seconds."""

    worker_id: str
    device_uuid: str
    now: datetime
    lease_s: float


@dataclass(frozen=True, kw_only=True)
class Granted:
    """A lease with its job, as sent to the worker."""

    attempt_id: int
    token: str
    job: Job


class Grants:
    """Inserts trials, jobs and leases within one session. The caller commits the session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def begin(self, search_id: int, asked: Sequence[ProposedTrial], holder: Holder) -> list[Granted]:
        """Store new trials, their evaluation jobs, and a lease of each job. Return the leases."""
        if not asked:
            return []
        trials = self._add(_TRIALS, [_trial(search_id, each) for each in asked])
        jobs = [_job(search_id, id, each.job, holder.now) for id, each in zip(trials, asked, strict=True)]
        return self._lease(self._add(_JOBS, jobs), [each.job for each in asked], holder)

    def grant(self, jobs: Sequence[JobRow], holder: Holder) -> list[Granted]:
        """Lease queued jobs to a device, and return the leases.

        If two processes lease the same job, one of them gets an error from the unique index on live attempts.
        """
        if not jobs:
            return []
        for job in jobs:
            job.state = "leased"
        return self._lease([job.id for job in jobs], [job.payload for job in jobs], holder)

    def _lease(self, ids: Sequence[int], jobs: Sequence[Job], holder: Holder) -> list[Granted]:
        lease = {
            "worker_id": holder.worker_id,
            "device_uuid": holder.device_uuid,
            "state": "live",
            "granted_at": holder.now,
            "expires_at": holder.now + timedelta(seconds=holder.lease_s),
        }
        tokens = [secrets.token_hex(16) for _ in ids]
        rows = [{"job_id": id, "token": token, **lease} for id, token in zip(ids, tokens, strict=True)]
        granted = zip(self._add(_ATTEMPTS, rows), tokens, jobs, strict=True)
        return [Granted(attempt_id=id, token=token, job=job) for id, token, job in granted]

    def _add(self, statement: ReturningInsert[int], rows: Sequence[Mapping[str, Any]]) -> Sequence[int]:
        return self.session.scalars(statement, rows).all()


def _trial(search_id: int, asked: ProposedTrial) -> dict[str, Any]:
    return {
        "search_id": search_id,
        "number": asked.trial.number,
        "config_key": asked.config_key,
        "proposal": asked.trial.proposal,
        "told_before": asked.told_before,
        "asked_at": asked.at,
    }


def _job(search_id: int, trial_id: int, job: Job, now: datetime) -> dict[str, Any]:
    return {
        "search_id": search_id,
        "trial_id": trial_id,
        "kind": job.kind,
        "state": "leased",
        "payload": job,
        "created_at": now,
    }
