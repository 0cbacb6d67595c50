"""Controls the lifecycle of a search: when it stops, which trials challenge the incumbent, and how it ends."""

from collections import Counter
from dataclasses import replace
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from api.scheduler.active import ActiveSearch
from api.scheduler.leasing.transaction import SearchTransaction
from api.scheduler.results.store import queue_confirmation
from db.engine.events import Events
from db.engine.signals import WORK, announce
from db.models import ChampionRow, SearchRow, VariantRow
from db.repositories.ablations import Ablations
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from db.repositories.leases import Leases
from db.repositories.variants import Variants
from evo.errors import InvalidInput
from evo.promotion.challenge import ChallengeLimit, Incumbent, bar, comparable_us
from evo.search.halving import REPEATED, VariantProgress, continues, next_rung, repeats, stagnates
from evo.search.lifecycle import TERMINAL, Command, common_failure, transition
from evo.search.niche import niche_of
from evo.search.search import StopReason
from evo.text.wording import outcome_text
from evo.trial import Trial
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import ReferenceFailed

log = structlog.get_logger("conductor")

OUTPERFORMED = "outperformed"
"""Reason why a variant's search ended, if other variants were faster after the same number of trials."""

DUPLICATE = "duplicate"
"""Reason why a variant's search ended, if earlier variants have the same binaries as its first trials."""

STOPPED = "stopped"
"""Reason why a search ended, if a user stopped the search before its budget was used up."""


def is_due(active: ActiveSearch, now: datetime) -> bool:
    """Return True if `advance` may change the search. This check does not read the database."""
    if active.state == "ablating" or active.waits_for_device:
        return True
    if active.state == "stopping":
        return not active.search.history.pending
    if active.state != "running":
        return False
    stops = active.search.stop_reason(active.elapsed_s(now)) is not None or _unjudgeable(active) is not None
    return stops or _may_repeat(active) or _may_challenge(active, now, ended=False)


def follow(transaction: SearchTransaction, now: datetime) -> None:
    """Advance the search if a step is due, and log the end of the search."""
    if is_due(transaction.active, now):
        advance(transaction, now)
    if transaction.active.state in TERMINAL:
        log.info("search ended", search=transaction.active.id, state=transaction.active.state)


def advance(transaction: SearchTransaction, now: datetime) -> None:
    """Take the next steps of a search, if any are due. The function may be called at any time and repeatedly.

    A running search stops proposing when its budget is used up, or when it tunes a variant that repeats earlier
    binaries. It fails if no trial can succeed. Otherwise, its best trials may challenge the incumbent. A stopping
    search without pending trials lets its best trials challenge the incumbent one after another, and then finishes. An
    ablation ends with its last job.
    """
    active = transaction.active
    if active.waits_for_device:
        adjust_clock(transaction, now)
    if active.state == "running" and (reason := active.search.stop_reason(active.elapsed_s(now))) is not None:
        _used_up(transaction, reason, now)
    if active.state == "running" and (fault := _unjudgeable(active)) is not None:
        change_state(transaction, "fail", now, reason=fault)
    elif active.state == "running" and _repeats(transaction):
        change_state(transaction, "stop", now, reason=DUPLICATE)
    elif active.state == "running":
        challenge(transaction, now, ended=False)
    elif active.state == "stopping" and not active.search.history.pending:
        leases = Leases(transaction.session)
        if active.search.best is None and not leases.at_work(active.id):
            finish(transaction, now)  # no trial was measured, so the queued jobs are not needed
        elif not leases.open_jobs(active.id) and not challenge(transaction, now, ended=True):
            finish(transaction, now)
    elif active.state == "ablating" and not Leases(transaction.session).open_jobs(active.id):
        change_state(transaction, "finish", now)


def adjust_clock(transaction: SearchTransaction, now: datetime) -> None:
    """Stop the clock of the running time while the search waits for its devices, and start it again afterwards.

    A search waits if at least one device has a job of the search, and other processes on the workers' machines hold all
    of these devices.
    """
    active = transaction.active
    waits = active.is_timed and Leases(transaction.session).waits_for_device(active.id)
    if waits != active.waits_for_device:
        active.set_clock(Archive(transaction.session).search(active.id), now, running=active.is_timed and not waits)
        Events(transaction.session).search_changed(active.id)


def _used_up(transaction: SearchTransaction, reason: StopReason, now: datetime) -> None:
    """Stop a search whose budget is used up, for `reason`.

    A search that tunes a variant and has used up its number of trials waits until all of its trials have ended. The
    search may then get more trials instead of being stopped.
    """
    active = transaction.active
    variant = Variants(transaction.session).tuned_by(active.id) if reason == "trials" else None
    if variant is None:
        change_state(transaction, "stop", now, reason=reason)
    elif not active.search.history.pending:
        trials = _more_trials(transaction.session, variant)
        if trials is None:
            change_state(transaction, "stop", now, reason=OUTPERFORMED if _may_grow(active, variant) else reason)
        else:
            _grant(transaction, trials)


def _may_grow(active: ActiveSearch, variant: VariantRow) -> bool:
    return variant.most_trials is None or len(active.search.history.asked) < variant.most_trials


def _more_trials(session: Session, variant: VariantRow) -> int | None:
    """Return the new limit on a variant's trials, or None if it gets no more trials."""
    variants = Variants(session)
    progress_by_search = {each: _progress(variants, each) for each in variants.searches_of(variant.search_id)}
    mine = progress_by_search.pop(variant.tuning_id)
    following = next_rung(len(mine.costs), most=variant.most_trials)
    stagnating = stagnates(variants.costs_of_all(variant.search_id))
    more = following > len(mine.costs) and continues(mine, list(progress_by_search.values()), stagnating=stagnating)
    return following if more else None


def _progress(variants: Variants, search_id: int) -> VariantProgress:
    archive = Archive(variants.session)
    best, niche = archive.best(search_id), None
    if best is not None:
        niche = niche_of(best.outcome, archive.search(search_id).roofline, Champions(variants.session).counters(best))
    return VariantProgress(costs=variants.costs(search_id), niche=niche)


def _may_repeat(active: ActiveSearch) -> bool:
    """Return True if a variant's first `REPEATED` trials have just ended. This check does not read the database."""
    ended = active.search.history.finished
    return active.terms.family.variant and len(ended) == REPEATED and ended[0].binary_digest is not None


def _repeats(transaction: SearchTransaction) -> bool:
    """Return True if all binaries of a variant's first trials also occur in earlier variants."""
    variants = Variants(transaction.session)
    if not _may_repeat(transaction.active) or (variant := variants.tuned_by(transaction.active.id)) is None:
        return False
    earlier = {each for each in variants.binaries(variants.earlier_searches(variant)) if each is not None}
    return repeats([trial.binary_digest for trial in transaction.active.search.history.finished], earlier)


def _grant(transaction: SearchTransaction, trials: int) -> None:
    """Set a larger trial budget, in memory and in the database."""
    active = transaction.active
    active.search.budget = replace(active.search.budget, trials=trials)
    Archive(transaction.session).search(active.id).budget = active.search.budget
    transaction.milestone()
    announce(transaction.session, WORK)
    Events(transaction.session).search_changed(active.id)


def _unjudgeable(active: ActiveSearch) -> str | None:
    """Return the reason why no trial of a search can succeed, or None if there is no such reason.

    If all first trials fail in the same way, the fault is in reference.py or in the kernel source, so all later trials
    would fail as well.
    """
    ended = active.search.history.finished
    tunables = [each.name for each in active.search.space.tunables if len(each.values) > 1]
    if (reason := common_failure(ended, tunables, active.search.coverage)) is not None:
        return reason
    if not ended or len(ended) < active.search.policy.reference_failures:
        return None
    outcome = ended[0].outcome
    if not isinstance(outcome, ReferenceFailed) or any(not isinstance(each.outcome, ReferenceFailed) for each in ended):
        return None
    return f"no config can be verified: {outcome.reason}"


def challenge(transaction: SearchTransaction, now: datetime, *, ended: bool) -> bool:
    """Queue a confirmation if one is due. Return True if a confirmation was queued, or if an open one must end first.

    Args:
        ended: True if no trial is pending and no more trials will be proposed. If False, the result may also be False
            while a confirmation is open.
    """
    active = transaction.active
    if not _may_challenge(active, now, ended=ended):
        return False
    waiting = Leases(transaction.session).open_jobs(active.id)
    if "confirm" in waiting:
        active.confirming = True
        return True
    if not ended and ("baseline" in waiting or not _affordable(transaction, now)):
        return False
    search = Archive(transaction.session).search(active.id)
    to_beat = _bar(transaction, search)
    below, own = (None, frozenset[str]()) if to_beat is None else (to_beat.below, to_beat.binaries)
    challenger = active.search.challengers.due(below, ended=ended, besides=own)
    if challenger is None:
        active.unbeaten = _best(active)
        if ended and to_beat is not None:
            search.unchallenged = _why_none(transaction, to_beat)
        return False
    begun = active.search.challengers.begin(challenger)
    further = active.search.challengers.further(below, besides=own) if ended else 0
    trial = Archive(transaction.session).numbered(active.id, begun.number)
    queue_confirmation(transaction, trial, begun.seen, further=further, now=now)
    return True


def _bar(transaction: SearchTransaction, search: SearchRow) -> ChallengeLimit | None:
    champions = Champions(transaction.session)
    champion = champions.incumbent(search)
    if champion is None:
        return None
    active = transaction.active
    here_us = _time_here_us(active, champion)
    try:
        cost = active.cost_of(champion, champion.time_us)
        here = None if here_us is None else active.cost_of(champion, here_us)
    except InvalidInput:
        return None  # the metric has no value for the champion, so the first confirmed challenger replaces it
    incumbent = Incumbent(
        id=champion.id,
        config=champion.config,
        cost=cost,
        here=here,
        binary_digest=champions.binary_digest(champion),
        foreign=champion.family_digest != search.family_digest,
    )
    return bar(incumbent, active.search.history.finished, search.policy)


def _time_here_us(active: ActiveSearch, champion: ChampionRow) -> float | None:
    """Return a champion's time in µs, corrected to be comparable with the quick times of this search.

    Return None if another search found the champion, or if its time cannot be corrected.
    """
    if champion.search_id != active.id:
        return None
    time_us = comparable_us(champion.evidence.verdict, active.timed_baselines)
    return None if time_us is None else time_us / active.search.challengers.slowdown(champion.trial_number)


def _why_none(transaction: SearchTransaction, to_beat: ChallengeLimit) -> str | None:
    """Return the reason why no trial challenges the champion, or None if users need no reason.

    Trials with the champion's own kernel are not considered. Users need no reason in three cases: there are no other
    trials, the best trial was a challenger, or there were challengers and the best trial looks no better than the
    champion.
    """
    search = transaction.active.search
    _, _, challenged = search.events
    others = (trial for trial in search.history.kernels(2, excluding=to_beat.binaries) if trial is not to_beat.again)
    best = next(others, None)
    if best is None or best in search.challengers:
        return None
    cost = search.history.cost(best)
    looks_better = cost is not None and cost < to_beat.cost
    return to_beat.missed_by(best, search.goal) if looks_better or not challenged else None


def _affordable(transaction: SearchTransaction, now: datetime) -> bool:
    """Return True if one more confirmation fits in the share of the running time that confirmations may take.

    `Policy.confirming_share` is this share. The next confirmation is assumed to take as long as the longest
    confirmation so far. If there is none, it is assumed to take `Policy.confirm_processes` times as long as timing the
    baselines. Also updates `challenge_from_s`.
    """
    active = transaction.active
    spent_s = Leases(transaction.session).confirming_s(active.id)
    policy = active.search.policy
    baselines_s = active.baselines.stages.measure_s if active.baselines else 0.0
    expected_s = max(spent_s, default=policy.confirm_processes * baselines_s)
    active.challenge_from_s = (sum(spent_s) + expected_s) / policy.confirming_share
    return active.elapsed_s(now) >= active.challenge_from_s


def _may_challenge(active: ActiveSearch, now: datetime, *, ended: bool) -> bool:
    """Return True if a challenge may be due, without reading the incumbent from the database.

    While a search runs, no challenge is due in three cases: a confirmation is open, `Policy.confirming_share` permits
    no confirmation yet, or the best trials have not changed since the last check found them too slow. Estimates never
    challenge, because they are not measurements.
    """
    if active.terms.device.runs == "nothing":
        return False
    if active.search.challengers.due(None, ended=ended) is None or (active.confirming and not ended):
        return False
    return ended or (active.unbeaten != _best(active) and active.elapsed_s(now) >= active.challenge_from_s)


def _best(active: ActiveSearch) -> tuple[int, ...]:
    """Return the numbers of the best `Policy.challengers` + 1 trials. One of these trials may be the incumbent."""
    return tuple(trial.number for trial in active.search.history.kernels(active.search.policy.challengers + 1))


def finish(transaction: SearchTransaction, now: datetime) -> None:
    """End a search as finished, or as failed if trials ended but none was measured."""
    ended = transaction.active.search.history.finished
    if ended and transaction.active.search.best is None:
        change_state(transaction, "fail", now, reason=_nothing_measured(ended))
    else:
        change_state(transaction, "finish", now)


def change_state(transaction: SearchTransaction, command: Command, now: datetime, *, reason: str | None = None) -> None:
    """Apply a command to the state of a search. If the search ends, cancel its open jobs and pending trials.

    Args:
        reason: reason why the search stops or ends. If None, or if an ablation ends, the stored reason is kept.

    Raises:
        Conflict: the current state does not allow the command.
    """
    session, active = transaction.session, transaction.active
    row = Archive(session).search(active.id)
    ended_before = active.state == "ablating"
    active.enter(row, transition(active.state, command), now)
    row.reason = row.reason if reason is None or ended_before else reason
    if active.state in TERMINAL:
        row.finished_at = row.finished_at if ended_before else now
        drop_open(session, active.id, now)
    Events(session).search_changed(active.id)


def drop_open(session: Session, search_id: int, now: datetime) -> None:
    """Cancel the open jobs and the pending trials of a search, and end its ablations."""
    Leases(session).cancel_all(search_id, now)
    Archive(session).cancel_pending(search_id, now)
    Ablations(session).close(search_id, now)


def _nothing_measured(ended: list[Trial]) -> str:
    outcomes = [trial.outcome for trial in ended if trial.outcome is not None]
    kinds = Counter(outcome_text(outcome.kind) for outcome in outcomes)
    counted = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    first = headline(detail_text(outcomes[0]))
    return f"none of the {len(ended)} trials could be measured: {counted}. First failure: {first}"
