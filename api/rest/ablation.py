"""Ablations of champions: start one, read its effects."""

from pydantic import BaseModel, ConfigDict, Field

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import rest_router
from api.schemas import Id
from api.views import ablation_views, search_view
from db.repositories.archive import Archive
from evo.messages.view import AblationView, SearchView

router = rest_router("/searches/{search_id}/ablation", tag="searches")


class AblationRequest(BaseModel):
    """Changes to measure."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: bool = Field(
        default=False, description="also measure the neighbouring values of tunables that are no switches"
    )


@router.post("", status_code=202)
@allow("submitter")
def start_ablation(search_id: Id, body: AblationRequest, service: ServiceDep) -> SearchView:
    """Measure the effect of each switch of a finished search's champion. An ablation in progress is left unchanged.

    The search is `ablating` until all effects are measured, then `finished` again. Nothing is promoted.
    """
    service.conductor.orders.ablate(search_id, values=body.values)
    with service.database.read() as session:
        return search_view(session, search_id, service.conductor.clock())


@router.get("")
@allow("viewer")
def get_ablation(search_id: Id, service: ServiceDep) -> tuple[AblationView, ...]:
    """Return every change of its champions with its effect so far; of repeated changes the latest."""
    with service.database.read() as session:
        Archive(session).search(search_id)
        return ablation_views(session, search_id)
