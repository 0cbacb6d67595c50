"""FastAPI dependency that passes the running service to routes."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from api.auth.authentication import Gate
from api.events.feed import Feed
from api.events.stream import Listeners
from api.events.webhooks.delivery import WebhookDelivery
from api.families import BuiltinFamilies
from api.operations.metrics import Metrics
from api.operations.periodic import Collector
from api.operations.readiness import Readiness
from api.scheduler.conductor import Conductor
from api.scheduler.leasing.wakeup import Wakeup
from api.settings import Settings
from db.engine.session import Database
from db.repositories.artefacts import Artefacts


@dataclass(frozen=True, kw_only=True)
class Service:
    """The database, scheduler and other objects of a running service that routes use."""

    settings: Settings
    database: Database
    conductor: Conductor
    artefacts: Artefacts
    wakeup: Wakeup
    feed: Feed
    webhooks: WebhookDelivery
    collector: Collector
    metrics: Metrics
    gate: Gate
    builtin: BuiltinFamilies
    readiness: Readiness
    listeners: Listeners = field(default_factory=Listeners)

    def end_waits(self) -> None:
        """End all waits for work and events, because the service is stopping. Call this from the event loop only."""
        self.wakeup.close()
        self.feed.close()


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
