"""REST routes of the service itself: health, OpenAPI document, metrics, and deletion of old data."""

from importlib.metadata import version
from typing import Any

from fastapi import Request, Response
from pydantic import Field

from api.auth.permission import allow, public
from api.dependencies import ServiceDep
from api.http.errors import may_see_places
from api.http.middleware.forwarding import address_of
from api.http.routing import bare_router, rest_router
from api.schemas import Body, Health
from api.settings import LARGEST_GB, LONGEST_DAYS
from db.engine.session import StoreUnavailable
from evo.messages.view import Collected

router = rest_router(tag="service")
metrics_router = bare_router()

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Collection(Body):
    """Limits on stored data: the age of old data in days, and the total size of all artefacts in GB.

    null means no limit. With `dry_run`, the data is only counted.
    """

    keep_days: float | None = Field(default=None, gt=0, le=LONGEST_DAYS, allow_inf_nan=False)
    artefact_limit_gb: float | None = Field(default=None, ge=0, le=LARGEST_GB, allow_inf_nan=False)
    dry_run: bool = False


@router.post("/collect")
@allow("admin")
def collect(body: Collection, service: ServiceDep) -> Collected:
    """Delete old data, and the oldest artefacts beyond a total size.

    Old data are ended searches, workers that send no requests, expired or revoked tokens, and unused family versions
    except the latest. Archived searches and data that champions need are kept.
    """
    return service.collector.collect(
        keep_days=body.keep_days, artefact_limit_gb=body.artefact_limit_gb, dry_run=body.dry_run
    )


@metrics_router.get("/metrics")
@allow("viewer")
def get_metrics(service: ServiceDep) -> Response:
    """Return the metrics for Prometheus."""
    return Response(service.metrics.text(), media_type=PROMETHEUS)


@router.get("/health")
@public
def get_health(request: Request, service: ServiceDep) -> Health:
    """Return status 200 while the process runs. If results cannot be stored, the response states the reason."""
    found = service.artefacts.refusal or service.database.refusal
    refusal = None if found is None else str(found) if may_see_places(request) else found.public
    return Health(status="ok", version=version("kernel-evo"), refusal=refusal)


@router.get("/ready")
@public
async def get_ready(service: ServiceDep) -> Health:
    """Return status 200 if the service accepts requests.

    The service accepts requests if it is not stopping, and its database answers and is undamaged.
    """
    if service.wakeup.closed:
        ending = "this process of the service is stopping; send the request to another process"
        raise StoreUnavailable(ending, public=ending)
    await service.readiness.check()
    return Health(status="ready", version=version("kernel-evo"))


@router.get("/openapi.json", include_in_schema=False)
@public
def get_openapi(request: Request) -> dict[str, Any]:
    """Return the OpenAPI document of this version."""
    document: dict[str, Any] = request.app.openapi()
    address = address_of(request).public
    elsewhere = address.prefix or request.app.state.service.settings.public_url is not None
    return {**document, "servers": [{"url": str(address)}]} if elsewhere else document
