"""Builds views of searches from their database rows."""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from api.views.champion import champion_view
from api.views.fleet import worker_view
from api.views.tally import Tally, elapsed_s
from db.models import AttemptRow, DeliveryRow, DeviceRow, FamilyRow, SearchRow, TrialRow, Webhook
from db.queries.pair import pair_of
from db.repositories.archive import BUNDLE, Archive
from db.repositories.champions import Champions
from db.repositories.deliveries import Deliveries
from db.repositories.fleet import Fleet
from db.repositories.leases import Leases
from db.repositories.readable import readable_items
from evo.device.estimate.roofline import Roofline
from evo.device.requirements import Requirements
from evo.messages.job import Confirm
from evo.messages.view import (
    BestView,
    ChallengeView,
    ProvingView,
    RetiredView,
    RooflineView,
    SearchView,
    SpaceView,
    WebhookView,
    WorkingView,
)
from evo.messages.view.search import gap_texts
from evo.messages.worker_state import SERVED, worker_obstacle
from evo.search.gain import Best, Gain, Tried, gains
from evo.search.lifecycle import TERMINAL
from evo.trial import Config
from evo.trial.outcome import Measured, Pruned
from evo.trial.timing import Timing

EARLY = 128
"""Speedups over the default config and over random configs use only this number of first trials of a search."""


def search_views(session: Session, rows: Sequence[SearchRow], now: datetime) -> tuple[SearchView, ...]:
    counts = Archive(session).counts([row.id for row in rows])
    deliveries = Deliveries(session).of_searches([row.id for row in rows if row.webhook is not None])
    views = tuple(_search_view(session, row, counts[row.id], now, deliveries.get(row.id)) for row in rows)
    if not any(view.state in SERVED for view in views):
        return views
    workers = tuple(worker_view(row, row.devices, now) for row in Fleet(session).workers())
    return tuple(replace(view, unserved=worker_obstacle(workers, view)) for view in views)


def listed_views(session: Session, rows: Sequence[SearchRow], now: datetime) -> Sequence[SearchView]:
    """Return the views of listed searches. Searches whose trials, verdicts or champions are unreadable are left out."""
    views, _ = readable_items(
        rows, lambda some: search_views(session, some, now), what="search", name=lambda row: row.id
    )
    return views


def search_view(session: Session, search_id: int, now: datetime) -> SearchView:
    """Return the view of one search, with its speed-ups over the default config and over random configs.

    These speed-ups compare measured times, so they are missing if the search has a metric or only estimates times.
    """
    row = Archive(session).search(search_id)
    view = search_views(session, [row], now)[0]
    if view.estimated or view.objective.metric is not None:
        return view
    return replace(view, gains=_gains(session, view, row.space.default))


def _gains(session: Session, view: SearchView, default: Config | None) -> tuple[Gain, ...]:
    archive = Archive(session)
    row = None if view.best is None else archive.numbered(view.id, view.best.number)
    timing = None if row is None else _timing(row)
    best, early = None, archive.first_ended(view.id, EARLY)
    if row is not None and timing is not None:
        usual = next((each for each in early if _is_default(each, default)), None)
        pair = None if usual is None or usual.id == row.id else pair_of(session, row, usual)
        over_default = None if pair is None else pair.speedup
        best = Best(number=row.number, timing=timing, confirmation=row.confirmed, over_default=over_default)
    tried = [
        Tried(
            number=each.number,
            origin=each.proposal.origin,
            timing=_timing(each),
            default=_is_default(each, default),
            confirmation=each.confirmed,
        )
        for each in early
    ]
    return gains(best, tried, view.baselines)


def _is_default(row: TrialRow, default: Config | None) -> bool:
    """Return True if a trial has the default config.

    Searches of old versions do not store their default config (`default` is None). In such a search, the trial with the
    origin ``default`` counts as default.
    """
    return row.proposal.origin == "default" if default is None else row.proposal.config == default


def _timing(row: TrialRow) -> Timing | None:
    """Return the quick samples of a trial, including those of a trial that was stopped early.

    Return None if there are no samples.
    """
    return row.outcome.timing if isinstance(row.outcome, Measured | Pruned) else None


def _search_view(
    session: Session, row: SearchRow, counts: dict[str | None, int], now: datetime, delivery: DeliveryRow | None
) -> SearchView:
    tally, champion = Tally.of(session, row, counts), Champions(session).incumbent(row)
    costs_ms = Archive(session).costs_ms(row.id)
    challenges = challenge_views(session, row.id)
    webhook = None if row.webhook is None else _webhook_view(row.webhook, delivery)
    undelivered = () if webhook is None or webhook.trouble is None else (webhook.trouble,)
    return SearchView(
        id=row.id,
        state=row.state,
        reason=row.reason,
        family=row.family.name,
        variant=row.family.variant,
        problem=row.problem,
        problem_key=row.problem_key,
        device=row.device,
        objective=row.objective,
        strategy=row.strategy,
        seed=row.seed,
        budget=row.budget,
        policy=row.policy,
        space=SpaceView(product_size=row.space.product_size, valid_count=row.space.valid_count),
        counts=tally.by_kind,
        asked=tally.asked,
        finished=tally.finished,
        best=tally.best,
        baselines=row.timed_baselines,
        missing_baselines=row.baselines.unavailable if row.baselines else {},
        baselines_done=row.baselines is not None,
        fastest_baseline=tally.fastest_baseline,
        speedup=tally.speedup,
        roofline=None if row.roofline is None else _roofline_view(row.roofline, tally.best),
        champion=None if champion is None else champion_view(champion),
        challenges=challenges,
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
        webhook=webhook,
        requirements=row.requirements or Requirements(),
        device_uuid=row.device_uuid,
        proving=None if row.state in TERMINAL else _confirmation(session, row, now),
        working=None if row.state in TERMINAL else _working(session, row, now),
        unchallenged=row.unchallenged,
        obstacle=_obstacle(session, row),
        retired=tuple(RetiredView(**vars(each)) for each in Champions(session).retired_of(row.id)),
        source=_source(row.family),
        unconfirmed=tally.unconfirmed,
        warnings=(*(row.baselines.warnings if row.baselines else ()), *undelivered, *gap_texts(challenges)),
    )


def _obstacle(session: Session, row: SearchRow) -> str | None:
    """Return the last reported reason why a worker cannot execute the jobs of a search, or None if there is none.

    The reason no longer counts if a job of the search is leased now, if the result of a job was reported later than the
    reason, or if the search has ended.
    """
    if row.obstacle is None or row.obstacle_at is None or row.state in TERMINAL:
        return None
    return None if Leases(session).any_since(row.id, row.obstacle_at) else row.obstacle


def _source(family: FamilyRow) -> str | None:
    return None if (family.location or "").startswith(BUNDLE) else family.location or family.name


def _confirmation(session: Session, row: SearchRow, now: datetime) -> ProvingView | None:
    found = Leases(session).open_confirmation(row.id)
    if found is None:
        return None
    job, attempt = found
    device = None if attempt is None else session.get(DeviceRow, (attempt.worker_id, attempt.device_uuid))
    further = job.payload.further if isinstance(job.payload, Confirm) else 0
    number = 1 if job.seen is None else Leases(session).place_among_confirmations(job)
    usual_s = _usual_s(session, row) if job.kind == "confirm" else None
    elapsed_s = None if attempt is None else max(0.0, (now - attempt.granted_at).total_seconds())
    left_s = None if usual_s is None or elapsed_s is None else max(0.0, usual_s - elapsed_s)
    return ProvingView(
        job="ablate" if job.kind == "ablate" else "confirm",
        number=number,
        planned=number + further,
        left_s=left_s,
        all_left_s=None if usual_s is None or left_s is None else left_s + further * usual_s,
        trial=None if job.trial is None else job.trial.number,
        since=None if attempt is None else attempt.granted_at,
        elapsed_s=elapsed_s,
        detail=None if device is None or attempt is None else _detail(device, attempt),
    )


def _working(session: Session, row: SearchRow, now: datetime) -> WorkingView | None:
    leases = Leases(session)
    found = leases.working(row.id)
    if found is None:
        return None
    job, attempt, device = found
    ended_at = leases.last_ended_at(attempt.worker_id, attempt.device_uuid)
    since = attempt.granted_at if ended_at is None else max(attempt.granted_at, ended_at)
    detail: str | None = "building" if job.trial is not None else "waits for the device"
    if device is not None:  # a device without a current lease may report why it waits
        detail = _detail(device, attempt) if device.attempt_id is not None else device.detail or detail
    return WorkingView(
        trial=None if job.trial is None else job.trial.number,
        since=since,
        elapsed_s=max(0.0, (now - since).total_seconds()),
        detail=detail,
    )


def _usual_s(session: Session, row: SearchRow) -> float | None:
    """Return the expected seconds of a confirmation, or None if they cannot be estimated.

    This is the mean of the confirmations of this search. Before the first one has ended, it is the mean of the latest
    confirmations of the same problem on the same device model. If there are none, it is the number of processes
    of a confirmation multiplied by the duration of timing the baselines.
    """
    leases = Leases(session)
    if spent_s := leases.confirming_s(row.id) or leases.confirming_s_of_rivals(row):
        return statistics.fmean(spent_s)
    baselines_s = row.baselines.stages.total_s if row.baselines else 0.0
    return row.policy.confirm_processes * baselines_s or None


def _detail(device: DeviceRow, attempt: AttemptRow) -> str | None:
    """Return the current step of a leased job that its device reported, or None if it reported none.

    If the device works on another lease, return a note that this job is waiting.
    """
    if device.attempt_id in (None, attempt.id):
        return None if device.attempt_id is None else device.detail
    return "waits for other jobs on the device"


def challenge_views(session: Session, search_id: int) -> tuple[ChallengeView, ...]:
    """Return the confirmations of a search that have a verdict, oldest first."""
    return tuple(
        ChallengeView(trial=job.trial.number, verdict=job.verdict)
        for job in Leases(session).confirmations(search_id)
        if job.trial is not None and job.verdict is not None
    )


def _webhook_view(webhook: Webhook, delivery: DeliveryRow | None) -> WebhookView:
    """Return the view of a webhook. Only the host is shown, because the path of the URL is often a secret.

    `delivery` is None until a message about the end of the search is stored.
    """
    parts = urlsplit(webhook.url)
    url = f"{parts.scheme}://{parts.netloc}/…"
    if delivery is None:
        return WebhookView(url=url)
    given_up = delivery.next_at is None and delivery.delivered_at is None
    return WebhookView(
        url=url, attempts=delivery.attempts, delivered_at=delivery.delivered_at, error=delivery.error, given_up=given_up
    )


def _roofline_view(roofline: Roofline, best: BestView | None) -> RooflineView:
    share = None if best is None else roofline.share(best.time_us)
    return RooflineView(floor_us=roofline.floor_us, bound=roofline.bound, share_of_best=share)
