"""One trial in full."""

from fastapi import APIRouter

from api.access.rule import allow
from api.deps import ServiceDep
from api.schemas import Id
from api.views import trial_view
from evo.view import TrialView

router = APIRouter(prefix="/trials", tags=["searches"])


@router.get("/{trial_id}")
@allow("viewer")
def get_trial(trial_id: Id, service: ServiceDep) -> TrialView:
    """Outcome, stages, artefacts and every attempt."""
    with service.database.read() as session:
        return trial_view(session, trial_id)
