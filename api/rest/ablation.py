"""What each switch of a search's champion is worth: ask for it, and look at it."""

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
    """Which changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    values: bool = Field(default=False, description="the neighbouring values of tunables that are no switches, too")


@router.post("", status_code=202)
@allow("submitter")
def start_ablation(search_id: Id, body: AblationRequest, service: ServiceDep) -> SearchView:
    """Measure what each switch of a finished search's champion is worth; one that is under way is left alone.

    The search is `ablating` until that is done, and `finished` again then. Nothing is promoted.
    """
    service.conductor.orders.ablate(search_id, values=body.values)
    with service.database.read() as session:
        return search_view(session, search_id, service.conductor.clock())


@router.get("")
@allow("viewer")
def get_ablation(search_id: Id, service: ServiceDep) -> tuple[AblationView, ...]:
    """Every change of its champions that was asked for, with what is known of it; the latest where it was repeated."""
    with service.database.read() as session:
        Archive(session).search(search_id)
        return ablation_views(session, search_id)
