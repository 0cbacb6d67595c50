"""Builds views of champions and ablations from their database rows."""

from sqlalchemy.orm import Session

from db.models import ChampionRow
from db.repositories.ablations import Ablations
from evo.device.estimate.target import place_text
from evo.messages.view import AblationView, ChampionView


def champion_view(row: ChampionRow) -> ChampionView:
    return ChampionView(
        id=row.id,
        family=row.family,
        family_digest=row.family_digest,
        variant=row.variant,
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
        decisions=row.decisions or (),
        called=row.called,
    )


def ablation_views(session: Session, search_id: int) -> tuple[AblationView, ...]:
    """Return views of the ablations of a search's champions."""
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
        for row in Ablations(session).of_search(search_id)
    )
