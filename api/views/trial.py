"""Builds views of trials from their database rows."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from db.models import AttemptRow, TrialRow
from db.repositories.archive import Archive
from db.repositories.leases import Leases
from db.repositories.readable import readable_items
from evo.messages.view import AttemptView, TrialView
from evo.promotion.leading import Source, leading_time
from evo.trial.results import ConfirmReport, EvaluateReport


def trial_views(session: Session, rows: Sequence[TrialRow], *, reported: bool = True) -> tuple[TrialView, ...]:
    """Return the views of trials in the given order.

    If `reported` is True, the views contain stages, artefacts, environment and uncovered cases from the latest
    evaluation reports. The views contain no attempts.
    """
    ids = [row.id for row in rows] if reported else []
    found, _ = readable_items(ids, lambda some: Leases(session).evaluations(some).items(), what="trial", name=int)
    reports = dict(found)
    return tuple(_trial_view(row, reports.get(row.id), ()) for row in rows)


def trial_view(session: Session, trial_id: int) -> TrialView:
    """Return the view of one trial with all its attempts."""
    row = Archive(session).trial(trial_id)
    report = Leases(session).evaluations([trial_id]).get(trial_id)
    attempts = Leases(session).attempts_of_trial(trial_id)
    return _trial_view(row, report, tuple(_attempt_view(attempt) for attempt in attempts))


def _trial_view(row: TrialRow, report: EvaluateReport | None, attempts: tuple[AttemptView, ...]) -> TrialView:
    return TrialView(
        id=row.id,
        search_id=row.search_id,
        number=row.number,
        config=row.proposal.config,
        origin=row.proposal.origin,
        parents=row.proposal.parents,
        outcome=row.outcome,
        time_us=row.time_us,
        cost=row.cost,
        second_cost=row.second_cost,
        suspect=row.suspect,
        overhead_ms=row.overhead_ms,
        delivery_ms=row.delivery_ms,
        binary_digest=row.binary_digest,
        stages=None if report is None else report.stages,
        artefacts={} if report is None else report.artefacts,
        uncovered={} if report is None else report.uncovered,
        environment={} if report is None else report.environment,
        attempts=attempts,
        asked_at=row.asked_at,
        finished_at=row.finished_at,
        source=source_of(row),
        quick_us=row.quick_us,
        confirmed=row.confirmed,
    )


def source_of(row: TrialRow) -> Source | None:
    """Return the source of a trial's time, e.g. ``quick`` or ``confirmed``, or None if the trial has no time."""
    time = leading_time(row.time_us, row.confirmed, estimated=row.outcome_kind == "estimated")
    return None if time is None else time.source


def _attempt_view(row: AttemptRow) -> AttemptView:
    return AttemptView(
        id=row.id,
        job=row.job.kind,
        state=row.state,
        worker_id=row.worker_id,
        device_uuid=row.device_uuid,
        granted_at=row.granted_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        report=row.result if isinstance(row.result, ConfirmReport) else None,
    )
