"""Health and readiness of the service."""

from importlib.metadata import version

from api.auth.permission import public
from api.dependencies import ServiceDep
from api.http.routing import rest_router
from api.schemas import Health
from db.engine.schema import check_schema
from db.engine.session import StoreUnavailable

router = rest_router(tag="service")


@router.get("/health")
@public
def get_health() -> Health:
    """Answer while the process runs."""
    return Health(status="ok", version=version("kernel-evo"))


@router.get("/ready")
@public
def get_ready(service: ServiceDep) -> Health:
    """Answer 200 if the service takes requests: it is not stopping, and the database has the expected schema."""
    if service.wakeup.closed:
        ending = "this process is stopping: use another one"
        raise StoreUnavailable(ending, public=ending)
    with service.database.read() as session:
        check_schema(session.connection())
    return Health(status="ready", version=version("kernel-evo"))
