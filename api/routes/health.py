"""Is it there, and can it work."""

from importlib.metadata import version

from fastapi import APIRouter
from sqlalchemy import text

from api.access.rule import public
from api.deps import ServiceDep
from api.schemas import Health

router = APIRouter(tags=["service"])


@router.get("/health")
@public
def get_health() -> Health:
    """The process answers."""
    return Health(status="ok", version=version("kernel-evo"))


@router.get("/ready")
@public
def get_ready(service: ServiceDep) -> Health:
    """The database answers, too."""
    with service.database.read() as session:
        session.execute(text("SELECT 1"))
    return Health(status="ready", version=version("kernel-evo"))
