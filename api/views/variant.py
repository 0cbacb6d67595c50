"""Builds views of variants from their database rows and from the searches that tune the variants."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from api.views.tally import Tally
from db.models import ProposalRow, SearchRow, TrialRow, VariantRow
from db.repositories.archive import Archive
from db.repositories.champions import Champions
from db.repositories.variants import FAMILY, Variants, unknown_variant
from evo.errors import NotFound
from evo.messages.view import FailureView, ProposalView, VariantView
from evo.trial.explain import failure_text
from evo.trial.outcome import Estimated, Measured

FAMILY_NAME = "family"
"""Name of the family's own implementation among the variants of a search."""


def variant_views(session: Session, search_id: int) -> tuple[VariantView, ...]:
    """Return the views of a search's variants by number. The first is the family's own implementation."""
    base = Archive(session).search(search_id)
    rows = Variants(session).of(search_id)
    searches = {row.id: row for row in Archive(session).searches_of([row.tuning_id for row in rows])}
    counts = Archive(session).counts([base.id, *searches])
    numbers = {base.id: FAMILY, **{row.tuning_id: row.number for row in rows}}
    first = _view(session, base, tuning=base, row=None, counts=counts[base.id], base_cost=None, numbers=numbers)
    base_cost = None if first.best is None else first.best.rank
    tuned: list[tuple[VariantRow, SearchRow]] = [(row, searches[row.tuning_id]) for row in rows]
    return (
        first,
        *(
            _view(session, base, tuning=each, row=row, counts=counts[each.id], base_cost=base_cost, numbers=numbers)
            for row, each in tuned
        ),
    )


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
    base_cost: float | None,
    numbers: Mapping[int, int],
) -> VariantView:
    tally = Tally.of(session, tuning, counts)
    best = tally.best
    champion = Champions(session).incumbent(base)
    trial = None if best is None else Archive(session).numbered(tuning.id, best.number)
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
        ratio=None if row is None or best is None or base_cost is None else best.rank / base_cost,
        speedup=tally.speedup,
        share=None if best is None or tuning.roofline is None else tuning.roofline.share(best.time_us),
        tuning_gain=_tuning_gain(session, tuning.id),
        objective=tuning.objective,
        champion=champion is not None and champion.search_id == tuning.id,
        mechanisms=_mechanisms(trial),
        same_as=None if trial is None else _same_as(session, trial, numbers),
        failures=tuple(_failures(session, tuning.id, tally.by_kind)),
    )


def _mechanisms(trial: TrialRow | None) -> tuple[str, ...]:
    outcome = None if trial is None else trial.outcome
    return outcome.mechanisms if isinstance(outcome, Measured | Estimated) else ()


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


def _failures(session: Session, search_id: int, counts: dict[str, int]) -> Sequence[FailureView]:
    failures = []
    for kind, count in counts.items():
        first = next(iter(Archive(session).trials(search_id, outcome=kind, limit=1)), None)
        if first is None or first.outcome is None or (text := failure_text(first.outcome)) is None:
            continue
        config = first.proposal.config
        failures.append(FailureView(outcome=kind, count=count, trial=first.number, config=config, detail=text))
    if refuted := Archive(session).refuted(search_id):
        first = refuted[0]
        reason = "" if first.confirmed is None else first.confirmed.refuted or ""
        config = first.proposal.config
        found = FailureView(outcome="refuted", count=len(refuted), trial=first.number, config=config, detail=reason)
        failures.insert(0, found)  # such a variant looked fast, and its reason matters most
    return failures


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
