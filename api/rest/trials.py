"""One trial by id."""

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import rest_router
from api.schemas import Id
from api.views import trial_view
from evo.messages.view import TrialView

router = rest_router("/trials", tag="searches")


@router.get("/{trial_id}")
@allow("viewer")
def get_trial(trial_id: Id, service: ServiceDep) -> TrialView:
    """Return a trial with outcome, stages, artefacts and every attempt."""
    with service.database.read() as session:
        return trial_view(session, trial_id)
