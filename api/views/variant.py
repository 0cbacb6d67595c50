"""Builds views of variants from their database rows and from the searches that tune the variants."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from api.views.tally import Tally
from db.models import ProposalRow, SearchRow, TrialRow, VariantRow
from db.queries.pair import pair_of
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from db.repositories.variants import FAMILY, Variants, unknown_variant
from evo.errors import NotFound
from evo.messages.view import FailureView, ProposalView, VariantView
from evo.promotion.leading import Source
from evo.search.niche import Niche, niche_of
from evo.trial import quick_cost
from evo.trial.explain import failure_text
from evo.trial.outcome import Estimated

FAMILY_NAME = "family"
"""Displayed name of the family's own implementation in lists of variants."""


def variant_views(session: Session, search_id: int) -> tuple[VariantView, ...]:
    """Return the views of a search's variants by number. The first is the family's own implementation."""
    base = Archive(session).search(search_id)
    rows = Variants(session).of_search(search_id)
    searches = {row.id: row for row in Archive(session).searches_of([row.tuning_id for row in rows])}
    counts = Archive(session).counts([base.id, *searches])
    numbers = {base.id: FAMILY, **{row.tuning_id: row.number for row in rows}}
    failures = _failures(session, counts)

    def view(tuning: SearchRow, row: VariantRow | None, own: TrialRow | None) -> VariantView:
        return _view(
            session,
            base,
            tuning=tuning,
            row=row,
            counts=counts[tuning.id],
            own=own,
            numbers=numbers,
            failures=failures[tuning.id],
        )

    first = view(base, None, None)
    own = None if first.best is None else Archive(session).numbered(base.id, first.best.number)
    return (first, *(view(searches[row.tuning_id], row, own) for row in rows))


def variant_view(session: Session, search_id: int, number: int) -> VariantView:
    """Return the view of one variant of a search.

    Raises:
        NotFound: the search or the variant does not exist.
    """
    found = next((view for view in variant_views(session, search_id) if view.number == number), None)
    if found is None:
        raise NotFound(unknown_variant(search_id, number))
    return found


def _view(
    session: Session,
    base: SearchRow,
    *,
    tuning: SearchRow,
    row: VariantRow | None,
    counts: dict[str | None, int],
    own: TrialRow | None,
    numbers: Mapping[int, int],
    failures: Sequence[FailureView],
) -> VariantView:
    tally = Tally.of(session, tuning, counts)
    best = tally.best
    champions = Champions(session)
    champion = champions.incumbent(base)
    trial = None if best is None else Archive(session).numbered(tuning.id, best.number)
    niche = Niche() if trial is None else niche_of(trial.outcome, tuning.roofline, champions.counters(trial))
    ratio, ratio_source = (None, None) if row is None else _ratio(session, trial, own)
    return VariantView(
        search_id=base.id,
        number=FAMILY if row is None else row.number,
        name=FAMILY_NAME if row is None else row.name,
        author="" if row is None else row.author,
        idea="" if row is None else row.idea,
        parents=() if row is None else tuple(row.parents),
        tuning_id=tuning.id,
        family_digest=tuning.family_digest,
        state=tuning.state,
        reason=tuning.reason,
        asked=tally.asked,
        finished=tally.finished,
        counts=tally.by_kind,
        submitted_at=tuning.created_at,
        most_trials=tuning.budget.trials if row is None else row.most_trials,
        best=best,
        ratio=ratio,
        ratio_source=ratio_source,
        speedup=tally.speedup,
        share=None if best is None or tuning.roofline is None else tuning.roofline.share(best.time_us),
        tuning_gain=_tuning_gain(session, tuning.id),
        objective=tuning.objective,
        champion=champion is not None and champion.search_id == tuning.id,
        mechanisms=niche.mechanisms,
        bound=niche.bound,
        same_as=None if trial is None else _same_as(session, trial, numbers),
        failures=tuple(failures),
    )


def _ratio(session: Session, trial: TrialRow | None, own: TrialRow | None) -> tuple[float, Source] | tuple[None, None]:
    """Return the cost of `trial` divided by that of `own`, and the source of both (quick, confirmed or estimated).

    The ratio is confirmed only if a confirmation timed both trials in the same rounds, because confirmed times of
    different runs are not comparable. Both results are None if there is no ratio.

    Args:
        trial: best trial of the variant. None if no trial has a time.
        own: best trial of the family's own implementation. None if no trial has a time.
    """
    if trial is None or own is None:
        return None, None
    if trial.quick_us is not None and own.quick_us is not None and (pair := pair_of(session, own, trial)) is not None:
        return pair.speedup.estimate, "confirmed"
    mine, theirs = quick_cost(trial.outcome), quick_cost(own.outcome)
    if mine is None or not theirs:
        return None, None
    return mine / theirs, "estimated" if isinstance(trial.outcome, Estimated) else "quick"


def _same_as(session: Session, trial: TrialRow, numbers: Mapping[int, int]) -> int | None:
    """Return the number of the first earlier variant that has the binary of a trial, or None if no variant has it."""
    if trial.binary_digest is None:
        return None
    earlier = [search for search, number in numbers.items() if number < numbers[trial.search_id]]
    found = Archive(session).searches_with_binary(trial.binary_digest, earlier)
    return min((numbers[search] for search in found), default=None)


def _tuning_gain(session: Session, search_id: int) -> float | None:
    costs = [cost for cost in Variants(session).costs(search_id) if cost is not None]
    return None if not costs else costs[0] / min(costs)


def _failures(session: Session, counts: Mapping[int, Mapping[str | None, int]]) -> dict[int, list[FailureView]]:
    """Return the failures of each search, by search id.

    All trials whose kernel is, or may be, invalid according to a confirmation are one entry. This entry comes first,
    because only variants with competitive quick times are confirmed. The other entries have one outcome each, most
    frequent outcome first.

    Args:
        counts: number of trials of each search by outcome. The key None contains the pending trials.
    """
    confirmed, others = defaultdict[int, list[FailureView]](list), defaultdict[int, list[FailureView]](list)
    for trial, found in Archive(session).not_valid(counts):
        reason = found.refuted or found.doubted or ""
        confirmed[trial.search_id].append(_failure(trial, found.source, 1, reason))
    for trial in Archive(session).first_of_each_failure(counts):
        if trial.outcome is not None and (text := failure_text(trial.outcome)) is not None:
            kind = trial.outcome.kind
            others[trial.search_id].append(_failure(trial, kind, counts[trial.search_id][kind], text))
    return {
        search_id: [
            *(replace(each, count=len(confirmed[search_id])) for each in confirmed[search_id][:1]),
            *sorted(others[search_id], key=lambda each: (-each.count, each.outcome)),
        ]
        for search_id in counts
    }


def _failure(trial: TrialRow, outcome: str, count: int, detail: str) -> FailureView:
    return FailureView(outcome=outcome, count=count, trial=trial.number, config=trial.proposal.config, detail=detail)


def proposal_view(row: ProposalRow, now: datetime) -> ProposalView:
    return ProposalView(
        number=row.number,
        operator=row.operator,
        information=row.information,
        model=row.model,
        prompt=row.prompt,
        answer=row.answer,
        tokens_in=row.tokens_in,
        tokens_out=row.tokens_out,
        usd=row.usd,
        asked_at=row.asked_at,
        answered_at=row.answered_at,
        asked_s=max(0.0, (now - row.asked_at).total_seconds()),
        repairs=row.repairs,
        insight=row.insight or "",
        error=row.error,
        variant=row.variant,
    )
