"""What a service does by itself, again and again: sweeping leases, delivering messages, collecting what is old."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

import structlog
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.active import Clock
from db.artefacts import Artefacts
from db.retention import collect_artefacts, collect_log, collect_searches
from db.session import Database, StoreUnavailable
from evo.view import Collected

log = structlog.get_logger("chores")

SEARCHES_AT_ONCE = 20

Done: TypeAlias = Callable[[str, float, bool], None]
"""Is told the name of a chore, the seconds it took, and whether it failed."""


@dataclass(frozen=True, kw_only=True)
class Chore:
    """Done every so many seconds, in a thread; one that fails is logged, and done again the next time."""

    name: str
    every_s: float
    work: Callable[[], object]


@contextlib.asynccontextmanager
async def regularly(chores: list[Chore], done: Done) -> AsyncIterator[None]:
    """Do chores as long as the block lasts; `done` counts them."""
    tasks = [asyncio.create_task(_repeat(chore, done)) for chore in chores]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeat(chore: Chore, done: Done) -> None:
    while True:
        await asyncio.sleep(chore.every_s)
        began, failed = time.perf_counter(), True
        try:
            await run_in_threadpool(chore.work)
            failed = False
        except StoreUnavailable as error:
            log.warning("a chore waits for the database", chore=chore.name, reason=str(error))
        except Exception:
            log.exception("a chore failed, it is tried again", chore=chore.name)
        done(chore.name, time.perf_counter() - began, failed)


class _Undone(Exception):
    """Ends a transaction without a trace."""


class Collector:
    """Keeps database and artefact store within what they may take.

    Args:
        keep_days, artefact_limit_gb: as in the settings; None: no limit.
    """

    def __init__(
        self,
        database: Database,
        store: Artefacts,
        *,
        clock: Clock,
        keep_days: float | None = None,
        artefact_limit_gb: float | None = None,
    ) -> None:
        self._database = database
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self._artefact_limit_gb = artefact_limit_gb

    def run(self) -> None:
        """What the settings ask for; and what nobody may ask for any more."""
        with self._database.write() as session:
            collect_log(session, self._clock())
        collected = self.collect(keep_days=self._keep_days, artefact_limit_gb=self._artefact_limit_gb)
        if collected != Collected(bytes_kept=collected.bytes_kept):
            log.info("collected", **vars(collected))

    def collect(self, *, keep_days: float | None, artefact_limit_gb: float | None, dry_run: bool = False) -> Collected:
        """Take out what is beyond these limits; `dry_run` only says what that would be."""
        now, artefacts, doomed = self._clock(), Collected(), list[str]()
        searches = Collected() if keep_days is None else self._searches(now - timedelta(days=keep_days), dry_run)
        if artefact_limit_gb is not None:
            with self._transaction(dry_run) as session:
                artefacts, doomed = collect_artefacts(session, int(artefact_limit_gb * 1e9), now)
        for digest in () if dry_run else doomed:
            self._store.remove(digest)
        return Collected(
            searches_deleted=searches.searches_deleted,
            searches_thinned=searches.searches_thinned,
            artefacts_deleted=artefacts.artefacts_deleted,
            bytes_freed=artefacts.bytes_freed,
            bytes_kept=artefacts.bytes_kept,
        )

    def _searches(self, before: datetime, dry_run: bool) -> Collected:
        """A few in each transaction, so that nobody waits long for theirs."""
        deleted = thinned = 0
        while True:
            with self._transaction(dry_run) as session:
                some = collect_searches(session, before, None if dry_run else SEARCHES_AT_ONCE)
            deleted, thinned = deleted + some.searches_deleted, thinned + some.searches_thinned
            if dry_run or some.searches_deleted < SEARCHES_AT_ONCE:
                return Collected(searches_deleted=deleted, searches_thinned=thinned)

    @contextlib.contextmanager
    def _transaction(self, dry_run: bool) -> Iterator[Session]:
        with contextlib.suppress(_Undone), self._database.write() as session:
            yield session
            if dry_run:
                raise _Undone
