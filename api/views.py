"""From rows to what the service shows (`evo.view`)."""

import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from db.ablations import Ablations
from db.archive import BUNDLE, Archive
from db.champions import Champions
from db.deliveries import Deliveries
from db.leases import Leases
from db.models import (
    AttemptRow,
    ChampionRow,
    DeliveryRow,
    DeviceRow,
    FamilyRow,
    JobRow,
    SearchRow,
    TrialRow,
    Webhook,
    WorkerRow,
)
from evo.job import ConfirmReport, EvaluateReport
from evo.lifecycle import TERMINAL
from evo.requirements import Requirements
from evo.roofline import Roofline
from evo.target import place_text
from evo.view import (
    AblationView,
    AttemptView,
    BestView,
    ChallengeView,
    ChampionView,
    FamilyView,
    ProvingView,
    RetiredView,
    RooflineView,
    SearchView,
    SlotView,
    SpaceView,
    TrialView,
    WebhookView,
    WorkerView,
)


def search_views(session: Session, rows: Sequence[SearchRow], now: datetime) -> tuple[SearchView, ...]:
    counts = Archive(session).counts([row.id for row in rows])
    told = Deliveries(session).of([row.id for row in rows if row.webhook is not None])
    return tuple(_search_view(session, row, counts[row.id], now, told.get(row.id)) for row in rows)


def search_view(session: Session, search_id: int, now: datetime) -> SearchView:
    return search_views(session, [Archive(session).search(search_id)], now)[0]


def _search_view(
    session: Session, row: SearchRow, counts: dict[str | None, int], now: datetime, told: DeliveryRow | None
) -> SearchView:
    best = Archive(session).best(row.id)
    best_us = None if best is None else best.time_us
    baselines = row.baselines.timings if row.baselines else {}
    fastest = min(baselines, key=lambda name: baselines[name].median_us, default=None)
    costs_ms = Archive(session).costs_ms(row.id)
    champion = Champions(session).incumbent(row)
    return SearchView(
        id=row.id,
        state=row.state,
        reason=row.reason,
        family=row.family.name,
        problem=row.problem,
        problem_key=row.problem_key,
        device=row.device,
        objective=row.objective,
        strategy=row.strategy,
        seed=row.seed,
        budget=row.budget,
        policy=row.policy,
        space=SpaceView(product_size=row.space.product_size, valid_count=row.space.valid_count),
        counts=by_kind(counts),
        asked=sum(counts.values()),
        finished=sum(count for kind, count in counts.items() if kind is not None),
        best=None if best is None or best_us is None else best_view(best, best_us),
        baselines=baselines,
        fastest_baseline=fastest,
        speedup=None if fastest is None or best_us is None else baselines[fastest].median_us / best_us,
        roofline=None if row.roofline is None else _roofline_view(row.roofline, best_us),
        champion=None if champion is None else champion_view(champion),
        challenges=tuple(_challenges(Leases(session).confirmations(row.id))),
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        elapsed_s=elapsed_s(row, now),
        overhead_ms=statistics.median(overhead for overhead, _ in costs_ms) if costs_ms else None,
        overhead_mean_ms=statistics.fmean(overhead for overhead, _ in costs_ms) if costs_ms else None,
        delivery_ms=statistics.median(delivery for _, delivery in costs_ms) if costs_ms else None,
        priority=row.priority,
        notes=row.notes,
        archived=row.archived_at is not None,
        cost=row.budget.spent(elapsed_s(row, now)),
        warm_start=row.warm_start,
        webhook=None if row.webhook is None else _webhook_view(row.webhook, told),
        requirements=row.requirements or Requirements(),
        device_uuid=row.device_uuid,
        proving=None if row.state in TERMINAL else _proving(session, row.id, now),
        unchallenged=row.unchallenged,
        retired=tuple(RetiredView(**vars(each)) for each in Champions(session).retired_of(row.id)),
        source=_source(row.family),
    )


def _source(family: FamilyRow) -> str | None:
    return None if (family.location or "").startswith(BUNDLE) else family.location or family.name


def _proving(session: Session, search_id: int, now: datetime) -> ProvingView | None:
    found = Leases(session).proving(search_id)
    if found is None:
        return None
    job, attempt = found
    device = None if attempt is None else session.get(DeviceRow, (attempt.worker_id, attempt.device_uuid))
    return ProvingView(
        job="ablate" if job.kind == "ablate" else "confirm",
        trial=None if job.trial is None else job.trial.number,
        since=None if attempt is None else attempt.granted_at,
        elapsed_s=None if attempt is None else (now - attempt.granted_at).total_seconds(),
        detail=None if device is None or attempt is None else _detail(device, attempt),
    )


def _detail(device: DeviceRow, attempt: AttemptRow) -> str | None:
    """What a device is doing of this lease; its words may be about another search's, behind which it waits."""
    if device.attempt_id in (None, attempt.id):
        return None if device.attempt_id is None else device.detail
    return "waits for other work on the device"


def _challenges(confirmations: Sequence[JobRow]) -> Iterator[ChallengeView]:
    for job in confirmations:
        if job.trial is not None and job.verdict is not None:
            yield ChallengeView(trial=job.trial.number, verdict=job.verdict)


def _webhook_view(webhook: Webhook, told: DeliveryRow | None) -> WebhookView:
    """The path of such a URL is often a secret of its own, so only the host is shown."""
    parts = urlsplit(webhook.url)
    url = f"{parts.scheme}://{parts.netloc}/…"
    if told is None:
        return WebhookView(url=url)
    given_up = told.next_at is None and told.delivered_at is None
    return WebhookView(
        url=url, attempts=told.attempts, delivered_at=told.delivered_at, error=told.error, given_up=given_up
    )


def by_kind(counts: dict[str | None, int]) -> dict[str, int]:
    """Ended trials by outcome, the commonest first."""
    return {kind: count for kind, count in sorted(counts.items(), key=_common) if kind is not None}


def elapsed_s(row: SearchRow, now: datetime) -> float:
    """Seconds a search has been running, pauses left out."""
    return row.active_s + (0.0 if row.active_since is None else (now - row.active_since).total_seconds())


def _common(counted: tuple[str | None, int]) -> tuple[int, str]:
    kind, count = counted
    return -count, kind or ""


def best_view(row: TrialRow, time_us: float) -> BestView:
    return BestView(number=row.number, config=row.proposal.config, time_us=time_us)


def _roofline_view(roofline: Roofline, best_us: float | None) -> RooflineView:
    share = None if best_us is None else roofline.share(best_us)
    return RooflineView(floor_us=roofline.floor_us, bound=roofline.bound, share_of_best=share)


def trial_views(session: Session, rows: Sequence[TrialRow], *, reported: bool = True) -> tuple[TrialView, ...]:
    """Trials in the order given, each with what its deciding attempt left behind, unless nobody looks at that."""
    reports = Leases(session).evaluations([row.id for row in rows]) if reported else {}
    return tuple(_trial_view(row, reports.get(row.id), ()) for row in rows)


def trial_view(session: Session, trial_id: int) -> TrialView:
    """One trial with all its attempts."""
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
        suspect=row.suspect,
        overhead_ms=row.overhead_ms,
        delivery_ms=row.delivery_ms,
        binary_digest=row.binary_digest,
        stages=None if report is None else report.stages,
        artefacts={} if report is None else report.artefacts,
        environment={} if report is None else report.environment,
        attempts=attempts,
        asked_at=row.asked_at,
        finished_at=row.finished_at,
    )


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


def champion_view(row: ChampionRow) -> ChampionView:
    return ChampionView(
        id=row.id,
        family=row.family,
        family_digest=row.family_digest,
        problem=row.problem,
        problem_key=row.problem_key,
        device_model=row.device_model,
        place=place_text(row.device, row.objective),
        objective=row.objective,
        search_id=row.search_id,
        trial_number=row.trial_number,
        config=row.config,
        time_us=row.time_us,
        current=row.current,
        promoted_at=row.promoted_at,
        verdict=row.evidence.verdict,
        report=row.evidence.report,
        artefacts=row.evidence.report.artefacts,
        replaces=row.replaces,
        retired_at=row.retired_at,
        retired_reason=row.retired_reason,
        retired_by=row.retired_by,
    )


def ablation_views(session: Session, search_id: int) -> tuple[AblationView, ...]:
    """What is known of the switches of a search's champions."""
    return tuple(
        AblationView(
            champion_id=row.champion_id,
            change=row.change,
            asked_at=row.asked_at,
            ended_at=row.ended_at,
            ablated=row.ablated,
            effect=row.effect,
            environment=row.environment or {},
        )
        for row in Ablations(session).of(search_id)
    )


def family_view(row: FamilyRow) -> FamilyView:
    return FamilyView(
        name=row.name,
        digest=row.digest,
        title=str(row.document.get("title", row.name)),
        location=row.location,
        document=row.document,
    )


def worker_view(row: WorkerRow, devices: Sequence[DeviceRow]) -> WorkerView:
    return WorkerView(
        id=row.id,
        name=row.name,
        host=row.host,
        devices=tuple(each.device for each in devices),
        seen_at=row.seen_at,
        drain=row.drain,
        slots=tuple(_slot_view(each) for each in devices),
        left_at=row.left_at,
        note=row.note,
    )


def _slot_view(row: DeviceRow) -> SlotView:
    return SlotView(
        device_uuid=row.uuid,
        activity=row.activity,
        detail=row.detail,
        quarantined_at=row.quarantined_at,
        quarantine_reason=row.quarantine_reason,
    )
