"""Stores results. Each report is evaluated, stored and published once."""

import secrets
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias, cast

import numpy as np
from sqlalchemy import update
from sqlalchemy.orm import Session

from api.families import Catalogue, goal_of
from api.scheduler import ablation
from api.scheduler.active import ActiveSearch, family_ref
from api.scheduler.leasing.transaction import SearchTransaction
from api.scheduler.results.validation import check_answer
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.models import AttemptRow, ChampionRow, Evidence, SearchRow, TrialRow
from db.repositories.archive import Archive, Ended
from db.repositories.champions import Champions, IncumbentChanged
from db.repositories.leases import Leases
from evo import promotion
from evo.errors import InvalidInput
from evo.family import DRAWN
from evo.messages.job import Ablate, Confirm, Evaluate, FamilyRef
from evo.promotion import Known, Quick, Verdict
from evo.promotion.ablation import Effect
from evo.promotion.challenge import comparable_us
from evo.promotion.goal import Costs
from evo.promotion.leading import confirmation_of
from evo.trial import Trial
from evo.trial.outcome import Crashed, Estimated, Impossible, Measured, Outcome, TimedOut
from evo.trial.results import AblateReport, BaselineReport, ConfirmReport, EvaluateReport, Report

_SEED_BITS = 48
"""Number of random bits in the seed of a confirmation. Authors of kernels cannot predict the seed, so a source cannot
contain the outputs for the inputs of a confirmation. The seed is stored with the job, so the inputs can be drawn again.
"""

Ruling: TypeAlias = Verdict | tuple[Effect | None, ...] | None
"""Verdict of a confirmation, or effects of an ablation, computed from its report. None for other reports."""


def settle(transaction: SearchTransaction, attempt: AttemptRow, report: Report, ruling: Ruling, now: datetime) -> None:
    """Accept the report of a live attempt.

    Args:
        attempt: attempt whose job and trial are already loaded.
        ruling: result of `ruled` for the report.

    Raises:
        InvalidInput: the report does not fit the job. Nothing was changed.
    """
    if attempt.job.kind != report.kind:
        raise InvalidInput(
            "report.kind", f"must be {attempt.job.kind}, the kind of the attempt's job, not {report.kind}"
        )
    check_answer(report, attempt.job.payload, transaction.active.terms)
    if isinstance(report, AblateReport) and isinstance(attempt.job.payload, Ablate):
        ablation.check_answers(attempt.job.payload, report)
    Leases(transaction.session).end(attempt, "done", now=now, result=report)
    match report:
        case EvaluateReport():
            _evaluated(transaction, attempt, report)
        case BaselineReport():
            _baselines(transaction, attempt, report)
        case ConfirmReport():
            _confirmed(transaction, attempt, Evidence(report=report, verdict=cast(Verdict, ruling)))
        case AblateReport():
            ablation.settle(transaction.session, attempt, report, cast(tuple[Effect | None, ...], ruling))


# Trials


def _evaluated(transaction: SearchTransaction, attempt: AttemptRow, report: EvaluateReport) -> None:
    active = transaction.active
    job, outcome, now = attempt.job, _possible(active, report.outcome), cast(datetime, attempt.ended_at)
    if isinstance(outcome, Crashed | TimedOut):
        job.candidate_faults += 1
        if job.candidate_faults < active.terms.policy.max_candidate_faults:
            job.state = "queued"
            transaction.queued()
            return
    job.state, job.ended_at = "done", now
    spent = report.stages
    end_trial(
        transaction,
        cast(TrialRow, job.trial),
        replace(
            active.search.history.pending[cast(Evaluate, job.payload).number],
            outcome=outcome,
            binary_digest=report.binary_digest,
        ),
        now=now,
        overhead_ms=None if spent.overhead_s is None else 1e3 * spent.overhead_s,
        delivery_ms=1e3 * max(0.0, (now - attempt.granted_at).total_seconds() - spent.total_s),
    )


def end_trial(
    transaction: SearchTransaction,
    row: TrialRow,
    trial: Trial,
    *,
    now: datetime,
    overhead_ms: float | None = None,
    delivery_ms: float | None = None,
) -> None:
    """Set the outcome of a pending trial, in memory and in the database.

    The search in memory is changed first, because it determines the order of ended trials. If the commit fails, the
    registry drops the search in memory and rebuilds it. `db.models.TrialRow` describes `overhead_ms` and `delivery_ms`,
    which are None if unknown.
    """
    search = transaction.active.search
    full, most_pending = search.full, search.most_pending
    ended = Ended(
        logged=search.tell(trial),
        at=now,
        suspect=_suspect(transaction.active, trial.time_us),
        overhead_ms=overhead_ms,
        delivery_ms=delivery_ms,
    )
    archive = Archive(transaction.session)
    archive.end_trial(row, ended)
    if search.challengers.has_confirmed(trial.binary_digest):
        archive.confirm_duplicate(row, search.goal, search.second)
    transaction.ended.append(row.id)
    if full and search.most_pending != most_pending:
        announce(transaction.session, WORK)


def _possible(active: ActiveSearch, outcome: Outcome) -> Outcome:
    """Return the outcome of a trial, or `Impossible` if the measured time is below the physical limit of the device.

    A cost in the report is removed, because only the service computes costs.
    """
    if isinstance(outcome, Measured | Estimated):
        outcome = replace(outcome, cost=None)
    if isinstance(outcome, Measured) and active.roofline and active.roofline.impossible(outcome.timing.median_us):
        return Impossible(timing=outcome.timing, floor_us=active.roofline.least_us)
    return outcome


def _suspect(active: ActiveSearch, time_us: float | None) -> bool:
    baseline_us = active.fastest_baseline_us
    speedup = active.search.policy.suspect_speedup
    return time_us is not None and baseline_us is not None and time_us * speedup < baseline_us


# Baselines


def _baselines(transaction: SearchTransaction, attempt: AttemptRow, report: BaselineReport) -> None:
    active, session = transaction.active, transaction.session
    attempt.job.state, attempt.job.ended_at = "done", attempt.ended_at
    Archive(session).search(active.id).baselines = active.baselines = report
    transaction.milestone()
    Events(session).search_changed(active.id)
    if (baseline_us := active.fastest_baseline_us) is not None:
        speedup = active.search.policy.suspect_speedup
        early = update(TrialRow).where(TrialRow.search_id == active.id, TrialRow.time_us * speedup < baseline_us)
        session.execute(early.values(suspect=True))


# Confirmations


def ruled(database: Database, catalogue: Catalogue, search_id: int, attempt_id: int, report: Report) -> Ruling:
    """Compute the verdict of a confirmation or the effects of an ablation. Return None for other reports.

    Call this function outside transactions, because the bootstrap is slow.
    """
    match report:
        case ConfirmReport():
            return judged(database, catalogue, search_id, attempt_id, report)
        case AblateReport():
            return ablation.weighed(database, search_id, report)
    return None


def judged(database: Database, catalogue: Catalogue, search_id: int, attempt_id: int, report: ConfirmReport) -> Verdict:
    """Return the verdict of a confirmation, computed from its report."""
    with database.read() as session:
        job = Leases(session).attempts([attempt_id])[attempt_id].job
        challengers = Leases(session).challengers(search_id)
        search = Archive(session).search(search_id)
        fallen = None if job.trial is None else Champions(session).rolled_back_kernel(search, job.trial)
        incumbent = None if job.incumbent_id is None else Champions(session).champion(job.incumbent_id)
        before = None if incumbent is None else incumbent.evidence.report.challenger
        goal, family = goal_of(search), catalogue.family(search.family)
    seed, costs = 0, None
    if isinstance(job.payload, Confirm):
        seed = job.payload.seed
        costs = None if goal is None else Costs.of(goal, report, job.payload.challenger, job.payload.incumbent)
    rolled_back = None if fallen is None else f"champion {fallen.id}, which was {fallen.retired_reason}"
    return promotion.decide(
        report,
        search.policy,
        challengers,
        np.random.default_rng(seed),
        Known(rolled_back=rolled_back, before=before, quick=_quick(search, job.trial), costs=costs),
        kind=search.device.kind,
        inputs=any(each.role in DRAWN for each in family.operands(search.problem)),
    )


def _quick(search: SearchRow, trial: TrialRow | None) -> Quick | None:
    outcome = None if trial is None else trial.outcome
    return Quick(timing=outcome.timing, baselines=search.timed_baselines) if isinstance(outcome, Measured) else None


def _confirmed(transaction: SearchTransaction, attempt: AttemptRow, evidence: Evidence) -> None:
    session = transaction.session
    job, search, verdict = attempt.job, Archive(session).search(transaction.active.id), evidence.verdict
    job.state, job.ended_at, job.verdict = "done", attempt.ended_at, verdict
    time_us = comparable_us(verdict, transaction.active.timed_baselines)
    if job.trial is not None and verdict.refuted is not None:
        transaction.active.search.challengers.refuted(job.trial.number)
    if job.trial is not None and time_us is not None:
        transaction.active.search.challengers.confirmed(job.trial.number, time_us)
    if job.trial is not None and (confirmation := confirmation_of(verdict)) is not None:
        own = transaction.active.search
        Archive(session).confirm(job.trial, confirmation, own.goal, own.second)
    confirmed(transaction)
    Events(session).search_changed(transaction.active.id)
    if not verdict.promote:
        return
    try:
        Champions(session).promote(_champion(search, attempt, evidence), over=job.incumbent_id)
    except IncumbentChanged:
        summary = (
            "Not promoted. The incumbent changed during the confirmation; the trial now challenges the new incumbent."
        )
        job.verdict = replace(verdict, promote=False, summary=summary)
        further = job.payload.further if isinstance(job.payload, Confirm) else 0
        trial, seen = cast(TrialRow, job.trial), cast(int, job.seen)
        queue_confirmation(transaction, trial, seen, further=further, now=cast(datetime, job.ended_at))


def confirmed(transaction: SearchTransaction) -> None:
    """Record the end of a confirmation, in memory and for other processes. The next confirmation may then be due."""
    transaction.active.confirming = False
    transaction.milestone()


def queue_confirmation(
    transaction: SearchTransaction, trial: TrialRow, seen: int, *, further: int, now: datetime
) -> None:
    """Queue a confirmation of a trial against the current incumbent.

    An incumbent from another variant is built from the files of that variant. The confirmation has no incumbent if the
    edited family no longer accepts the incumbent's config, or if the search's metric has no value for the incumbent. A
    challenger that passes such a confirmation still replaces the champion.

    Args:
        seen: number of trials that had ended when the trial was selected to challenge.
        further: number of trials that are expected to challenge the incumbent after this one.
    """
    session, active = transaction.session, transaction.active
    search = Archive(session).search(active.id)
    incumbent = Champions(session).incumbent(search)
    family = None if incumbent is None else _other_variant(session, search, incumbent)
    config = None if incumbent is None or not _comparable(active, incumbent) else incumbent.config
    payload = Confirm(
        challenger=trial.proposal.config,
        incumbent=config if config is not None and (family or config in active.search.space) else None,
        incumbent_family=family,
        further=further,
        seed=secrets.randbits(_SEED_BITS),
    )
    incumbent_id = None if incumbent is None else incumbent.id
    Leases(session).queue(search.id, payload, now=now, trial=trial, incumbent_id=incumbent_id, seen=seen)
    active.confirming = True
    transaction.queued()


def _comparable(active: ActiveSearch, incumbent: ChampionRow) -> bool:
    try:
        active.cost_of(incumbent, incumbent.time_us)
    except InvalidInput:
        return False
    return True


def _other_variant(session: Session, search: SearchRow, incumbent: ChampionRow) -> FamilyRef | None:
    """Return the family of the incumbent if it belongs to another variant with the same contract, else None."""
    if incumbent.family_digest == search.family_digest:
        return None
    family = Archive(session).family(incumbent.family_digest)
    same = family.contract_digest == search.family.contract_digest
    return family_ref(family) if same else None


def _champion(search: SearchRow, attempt: AttemptRow, evidence: Evidence) -> ChampionRow:
    trial, challenger = cast(TrialRow, attempt.job.trial), evidence.report.challenger
    assert challenger is not None, "only a measured challenger can be promoted"
    return ChampionRow(
        family=search.family.name,
        family_digest=search.family_digest,
        variant=search.family.variant,
        problem=search.problem,
        problem_key=search.problem_key,
        device=search.device,
        device_model=search.device.model,
        objective=search.objective.first,
        objective_key=search.objective.key,
        search_id=search.id,
        trial_id=trial.id,
        trial_number=trial.number,
        config=trial.proposal.config,
        time_us=challenger.median_us,
        evidence=evidence,
        promoted_at=attempt.ended_at,
    )
