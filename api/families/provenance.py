"""Whether what a search built can still be built as it was."""

import socket
from datetime import datetime

from sqlalchemy.orm import Session

from db.models import FamilyRow, SearchRow
from db.repositories.archive import BUNDLE
from db.repositories.fleet import Fleet
from evo.errors import Conflict, EvoError
from templates import registry


def refuse_edited(session: Session, search: SearchRow, connected_since: datetime) -> None:
    """Nothing, while a connected worker may have the family as the search had it: else its jobs would wait for ever.

    Workers on this machine have what this machine has; of others nobody knows before they look.

    Raises:
        Conflict: all workers for the search are on this machine, where the family is another one by now, or gone.
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
    """Machines of the connected workers with such a device."""
    devices = Fleet(session).devices(connected_since)
    wanted = (search.device.kind, search.device.model)
    fitting = {each.worker_id for each in devices if (each.kind, each.model) == wanted}
    return {worker.host for worker in Fleet(session).some(fitting)}


def _digest_here(family: FamilyRow) -> str | None:
    """Of the family that is in its place now; None: nothing that could be read is."""
    try:
        return registry.find(family.location or family.name).digest
    except EvoError:
        return None
