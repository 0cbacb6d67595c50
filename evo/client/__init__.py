"""Typed client of the REST API, for workers, the command line and users: ``from evo.client import Client``."""

from evo.client.client import Client
from evo.client.searches import SearchCommand
from evo.client.transport import (
    AccessDenied,
    ForeignService,
    ServiceAway,
    ServiceError,
    ServiceUnreachable,
    TooLarge,
)
from evo.client.workers import Acceptance, Leases

__all__ = [
    "Acceptance",
    "AccessDenied",
    "Client",
    "ForeignService",
    "Leases",
    "SearchCommand",
    "ServiceAway",
    "ServiceError",
    "ServiceUnreachable",
    "TooLarge",
]
