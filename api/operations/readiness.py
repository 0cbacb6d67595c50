"""Checks within a few seconds whether the database can be used."""

import asyncio

from starlette.concurrency import run_in_threadpool

from db.engine.session import Database, StoreUnavailable

READY_S = 3.0
"""Seconds to wait for the result of a check. If the server hangs, the query of a check may last much longer."""


class Readiness:
    """Checks a database. Callers share a running check, so that a database that hangs occupies only one thread."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Check the database. Call this from the event loop only.

        Raises:
            StoreUnavailable: the database cannot be used, or did not answer within `READY_S` seconds.
        """
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(run_in_threadpool(self._database.check))
            self._running.add_done_callback(_retrieve)
        try:
            await asyncio.wait_for(asyncio.shield(self._running), READY_S)
        except TimeoutError:
            reason = f"the server did not answer within {READY_S:g} s; check the server and its connection pooler"
            raise StoreUnavailable(f"database {self._database.location}: {reason}", public=reason) from None


def _retrieve(check: "asyncio.Task[None]") -> None:
    """Retrieve the result of a check, so that asyncio does not log the check's exception as never retrieved."""
    if not check.cancelled():
        check.exception()
