"""Maintenance of a service: metrics, and deletion of old data."""

from fastapi import Response
from pydantic import Field

from api.auth.permission import allow
from api.dependencies import ServiceDep
from api.http.routing import bare_router, rest_router
from api.schemas import Body
from api.settings import LARGEST_GB, LONGEST_DAYS
from evo.messages.view import Collected

router = rest_router(tag="service")
metrics_router = bare_router()

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Collection(Body):
    """Limits of one collection; null: no limit. With `dry_run`, nothing is deleted, only counted."""

    keep_days: float | None = Field(default=None, gt=0, le=LONGEST_DAYS, allow_inf_nan=False)
    artefact_limit_gb: float | None = Field(default=None, ge=0, le=LARGEST_GB, allow_inf_nan=False)
    dry_run: bool = False


@router.post("/collect")
@allow("admin")
def collect(body: Collection, service: ServiceDep) -> Collected:
    """Delete old ended searches, and artefacts beyond a size; never data that champions need."""
    return service.collector.collect(
        keep_days=body.keep_days, artefact_limit_gb=body.artefact_limit_gb, dry_run=body.dry_run
    )


@metrics_router.get("/metrics")
@allow("viewer")
def get_metrics(service: ServiceDep) -> Response:
    """Return the metrics for Prometheus."""
    return Response(service.metrics.text(), media_type=PROMETHEUS)
