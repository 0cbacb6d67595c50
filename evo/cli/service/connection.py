"""Connect a command to a service: a remote one by its address, or that of the local database."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from evo.cli.service.locations import LocalDatabase, Where
from evo.client import Client, ServiceUnreachable

T = TypeVar("T")
PATIENCE_S = 60.0
"""Seconds to wait for a service that stopped answering."""
PAUSE_S = 0.5


class Connection:
    """A client that outlives restarts of its service, also at another address.

    Args:
        find: gives the present address; for a local database it also keeps the service running.
        token: gives the token to show there.
    """

    def __init__(self, find: Callable[[], str], token: Callable[[], str | None]) -> None:
        self._find = find
        self.token = token
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        url = self._find()
        if self._client is None or self._client.url != url:
            self.close()
            self._client = Client(url, token=self.token())
        return self._client

    def ask(self, question: Callable[[Client], T]) -> T:
        """The answer to a question, asked again while the service is away, so only for what may be asked twice.

        Raises:
            ServiceUnreachable: it stayed away for `PATIENCE_S`.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return question(self.client)
            except ServiceUnreachable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(PAUSE_S)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


@contextmanager
def connect(where: Where, *, measuring: bool = False, beginning: bool = False) -> Iterator[Connection]:
    """A connection for one command; a service (and, if `measuring`, a worker) it had to start ends with it.

    If all went well that waits until its worker has done what it confirms or ablates for another terminal.

    Args:
        beginning: a database that does not exist yet is made; without it, only the default one is.

    Raises:
        NotFound: the database the user named, or the folder of a new one, does not exist.
        ServiceUnreachable: nothing answers at that address.
        EvoError: the local service does not start.
    """
    if where.url is None:
        from db.engine.key import local_key
        from evo.cli.service.local import Local  # brings the database with it, which a remote service has no use for

        place = LocalDatabase.to_begin(where.database) if beginning else LocalDatabase.to_use(where.database)
        local = Local(place, measuring=measuring)
        connection = Connection(local.tend, lambda: local_key(place.database) or where.token)
    else:
        local, connection = None, Connection(lambda: str(where.url), lambda: where.token)
        with Client(where.url, token=where.token, attempts=2) as first:
            first.health()
    try:
        if local is not None:
            local.prepare()
        yield connection
        if local is not None:
            local.let_finish()
    finally:
        connection.close()
        if local is not None:
            local.close()
