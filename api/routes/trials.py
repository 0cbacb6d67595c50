"""One trial in full."""

from api.access.rule import allow
from api.deps import ServiceDep
from api.routing import rest_router
from api.schemas import Id
from api.views import trial_view
from evo.view import TrialView

router = rest_router("/trials", tag="searches")


@router.get("/{trial_id}")
@allow("viewer")
def get_trial(trial_id: Id, service: ServiceDep) -> TrialView:
    """Outcome, stages, artefacts and every attempt."""
    with service.database.read() as session:
        return trial_view(session, trial_id)
