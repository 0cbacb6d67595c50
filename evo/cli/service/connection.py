"""Connects a command to a remote service by its address, or to the service of the local database.

The client is imported on use, because its libraries take a second to import, which would delay the help.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from evo.cli.service.locations import LocalDatabase, ServiceRef

if TYPE_CHECKING:
    from evo.client import Client

T = TypeVar("T")
TIMEOUT_S = 60.0
"""Seconds for which requests to an unavailable service are retried."""
QUIET_S = 5.0
"""Seconds of an outage after which a message reports the retries."""

PAUSE_S = 0.5


class Connection:
    """A client that stays usable when its service restarts, even at another address.

    Args:
        find: function that returns the current address. For a local database, the function also keeps the service
            running.
        token: function that returns the token for the service.
    """

    def __init__(self, find: Callable[[], str], token: Callable[[], str | None]) -> None:
        self._find = find
        self.token = token
        self._client: Client | None = None

    @property
    def client(self) -> "Client":
        from evo.client import Client

        url = self._find()
        if self._client is None or self._client.url != url:
            self.close()
            self._client = Client(url, token=self.token())
        return self._client

    def ask(self, question: "Callable[[Client], T]", on_silence: "Callable[[str], None] | None" = None) -> T:
        """Call `question` with the client, and return the result.

        While the service is unavailable, `question` is called again, so its requests must be idempotent.

        Args:
            on_silence: function that is called once, with a message, if the service is unavailable for `QUIET_S`.

        Raises:
            ServiceUnreachable: the service was unavailable for `TIMEOUT_S` after the first failed attempt.
        """
        from evo.client import ServiceUnreachable

        failing_since: float | None = None
        while True:
            try:
                return question(self.client)
            except ServiceUnreachable as error:
                failing_since = time.monotonic() if failing_since is None else failing_since
                if on_silence is not None and time.monotonic() - failing_since >= QUIET_S:
                    on_silence(f"{error}; trying again for {TIMEOUT_S - QUIET_S:.0f} s")
                    on_silence = None
                if time.monotonic() - failing_since > TIMEOUT_S:
                    raise
            time.sleep(PAUSE_S)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


@contextmanager
def connect(where: ServiceRef, *, measuring: bool = False, beginning: bool = False) -> Iterator[Connection]:
    """Open a connection for one command. If necessary, start a local service, and if `measuring` is True, a worker.

    The started processes end with the command. If the command succeeded and its worker runs a confirmation or ablation
    for another terminal, the command first waits until that job has ended.

    Args:
        beginning: True to create a missing database. False to create only the default database.

    Raises:
        NotFound: the database that the user named, or the folder of a new database, does not exist.
        ServiceUnreachable: no service answers at the address.
        EvoError: the local service does not start.
    """
    from evo.client import Client

    if where.url is None:
        from db.engine.key import local_key
        from evo.cli.service.local import Local  # imports the database, which a remote service does not need

        location = LocalDatabase.to_begin(where.database) if beginning else LocalDatabase.to_use(where.database)
        local = Local(location, measuring=measuring, standby=where.standby)
        connection = Connection(local.tend, lambda: local_key(location.database) or where.token)
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
