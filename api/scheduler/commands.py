"""Executes the commands of users: submit, pause, resume, stop or cancel a search, or ablate its champion."""

import socket
from collections.abc import Callable
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from api.families import Catalogue
from api.scheduler import ablation, lifecycle
from api.scheduler.active import Clock
from api.scheduler.leasing.transaction import SearchTransaction
from api.scheduler.registry import Registry
from api.scheduler.submission import add_predicted, terms_of
from api.schemas import SearchRequest
from db.engine.events import Events
from db.engine.session import Database
from db.engine.signals import WORK, announce
from db.models import FamilyRow, SearchRow, Webhook
from db.repositories.archive import BUNDLE, Archive
from db.repositories.fleet import Fleet
from db.repositories.leases import Leases
from evo.errors import Conflict, EvoError
from evo.messages.job import Baseline
from evo.search.lifecycle import Command, transition
from templates import registry

log = structlog.get_logger("conductor")


class Commands:
    """Executes commands of users. Methods may be called from any thread.

    Args:
        connected_since: function that returns a time. Workers that sent a request after this time count as connected.
    """

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        registry: Registry,
        clock: Clock,
        *,
        connected_since: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._catalogue = catalogue
        self._registry = registry
        self._clock = clock
        self._connected_since = connected_since

    def submit(self, request: SearchRequest, webhook: Webhook | None = None) -> int:
        """Store a new search with its first job, and return its id. Workers can then start with the job immediately.

        Args:
            webhook: receiver of a message about the end of the search. None if no message is wanted.

        Raises:
            NotFound, InvalidInput, Conflict: the family is unknown, a setting is invalid, the space is empty, or no
                device can run the search.
        """
        now = self._clock()
        with self._database.read() as session:
            row = terms_of(session, request, self._catalogue, self._connected_since())
            add_predicted(session, row, request, self._catalogue)
        with self._database.write() as session:
            row.created_at, row.webhook = now, webhook
            session.add(row)
            session.flush()
            Leases(session).queue(row.id, Baseline(), now=now)
            Events(session).search_changed(row.id)
            announce(session, WORK)
        log.info("search submitted", search=row.id, family=row.family.name, problem=row.problem_key)
        return row.id

    def check(self, request: SearchRequest) -> None:
        """Raise the errors that `submit` would raise, without storing the search."""
        with self._database.read() as session:
            terms_of(session, request, self._catalogue, self._connected_since())

    def command(self, search_id: int, command: Command) -> None:
        """Pause, resume, stop or cancel a search. If the search is already in the requested state, nothing changes.

        Raises:
            NotFound: the search does not exist.
            Conflict: the state of the search does not allow the command.
        """
        with self._registry.transaction(search_id) as transaction:
            if transaction is not None:
                if transition(transaction.active.state, command) != transaction.active.state:
                    self._obey(transaction, command)
                return
        with self._database.read() as session:
            transition(Archive(session).search(search_id).state, command)

    def ablate(self, search_id: int, *, values: bool = False) -> None:
        """Queue an ablation of a finished search's champion, which measures the effect of each switch.

        Args:
            values: True to also change the tunables that are not switches, to the values next to the champion's value.

        Raises:
            NotFound: the search does not exist.
            Conflict: the search has not finished, found no current champion, or its champion has no value to change; or
                the family has changed since, and all connected workers for the search are on this machine, where the
                old version no longer exists.
        """
        with self._database.read() as session:
            search = Archive(session).search(search_id)
            if search.state == "finished":
                refuse_edited(session, search, self._connected_since())
        with self._database.write() as session:
            ablation.begin(session, self._catalogue, search_id, values=values, now=self._clock())
        log.info("ablation requested", search=search_id, values=values)

    def _obey(self, transaction: SearchTransaction, command: Command) -> None:
        reason = {"stop": lifecycle.STOPPED, "cancel": "cancelled"}.get(command)
        lifecycle.change_state(transaction, command, self._clock(), reason=reason)
        announce(transaction.session, WORK)
        log.info("user command executed", search=transaction.active.id, command=command)
        lifecycle.follow(transaction, self._clock())


def refuse_edited(session: Session, search: SearchRow, connected_since: datetime) -> None:
    """Refuse to ablate a champion if its family has changed and all connected workers are on this machine.

    Otherwise the jobs of the search would wait forever. Workers on this machine read the same files as the service. A
    worker on another machine may still have the old version.

    Raises:
        Conflict: all workers for the search are on this machine, where the family was changed or removed.
    """
    family = search.family
    if (family.location or "").startswith(BUNDLE) or _hosts(session, search, connected_since) != {socket.gethostname()}:
        return
    if _digest_here(family) != family.digest:
        raise Conflict(
            f"family {family.name} has changed since search {search.id}, and no worker for the search still has the "
            "old version, because all these workers are on this machine; start a new search, and ablate its champion"
        )


def _hosts(session: Session, search: SearchRow, connected_since: datetime) -> set[str]:
    """Return the hosts of the connected workers that have the device of a search."""
    devices = Fleet(session).devices(connected_since)
    wanted = (search.device.kind, search.device.model)
    fitting = {each.worker_id for each in devices if (each.kind, each.model) == wanted}
    return {worker.host for worker in Fleet(session).some(fitting)}


def _digest_here(family: FamilyRow) -> str | None:
    try:
        return registry.find(family.location or family.name).digest
    except EvoError:
        return None
