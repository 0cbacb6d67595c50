"""Checks that a search's family is unchanged, so that its champion can be built again."""

import socket
from datetime import datetime

from sqlalchemy.orm import Session

from db.models import FamilyRow, SearchRow
from db.repositories.archive import BUNDLE
from db.repositories.fleet import Fleet
from evo.errors import Conflict, EvoError
from templates import registry


def refuse_edited(session: Session, search: SearchRow, connected_since: datetime) -> None:
    """Refuse to use a search whose family changed, if no connected worker can have the old version.

    Its jobs would otherwise wait for ever. Workers on this machine read the same files as the service; a worker on
    another machine may still have the old version.

    Raises:
        Conflict: all workers for the search are on this machine, where the family has changed or is gone.
    """
    family = search.family
    if (family.location or "").startswith(BUNDLE) or _hosts(session, search, connected_since) != {socket.gethostname()}:
        return
    if _digest_here(family) != family.digest:
        raise Conflict(
            f"family {family.name} has changed since search {search.id}, so its champion cannot be built again as it "
            "was on this machine, where its workers are: search again, then ablate that"
        )


def _hosts(session: Session, search: SearchRow, connected_since: datetime) -> set[str]:
    """Return the hosts of the connected workers that have the search's device."""
    devices = Fleet(session).devices(connected_since)
    wanted = (search.device.kind, search.device.model)
    fitting = {each.worker_id for each in devices if (each.kind, each.model) == wanted}
    return {worker.host for worker in Fleet(session).some(fitting)}


def _digest_here(family: FamilyRow) -> str | None:
    """Return the digest of the family's current files; None if they cannot be read."""
    try:
        return registry.find(family.location or family.name).digest
    except EvoError:
        return None
