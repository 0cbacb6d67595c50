"""Views of proposals, from their rows."""

from db.models import ProposalRow
from evo.messages.view import ProposalView


def proposal_view(row: ProposalRow) -> ProposalView:
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
        repairs=row.repairs,
        insight=row.insight or "",
        error=row.error,
        variant=row.variant,
    )
