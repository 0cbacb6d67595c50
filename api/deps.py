"""What a route may ask for."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from api.access.gate import Gate
from api.builtin import BuiltinFamilies
from api.chores import Collector
from api.conductor import Conductor
from api.courier import Courier
from api.feed import Feed
from api.listeners import Listeners
from api.metrics import Metrics
from api.settings import Settings
from api.wakeup import Wakeup
from db.artefacts import Artefacts
from db.session import Database


@dataclass(frozen=True, kw_only=True)
class Service:
    """One running service: everything its routes need."""

    settings: Settings
    database: Database
    conductor: Conductor
    artefacts: Artefacts
    wakeup: Wakeup
    feed: Feed
    courier: Courier
    collector: Collector
    metrics: Metrics
    gate: Gate
    builtin: BuiltinFamilies
    listeners: Listeners = field(default_factory=Listeners)

    def end_waits(self) -> None:
        """Let nobody wait any longer, for work or for news: the service is about to end. From the event loop only."""
        self.wakeup.close()
        self.feed.close()


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
