"""What a route may ask for."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from api.conductor import Conductor
from api.wakeup import Wakeup
from db.artefacts import Artefacts
from db.session import Database


@dataclass(frozen=True, kw_only=True)
class Service:
    """One running service: everything its routes need."""

    database: Database
    conductor: Conductor
    artefacts: Artefacts
    wakeup: Wakeup


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceDep = Annotated[Service, Depends(_service)]
