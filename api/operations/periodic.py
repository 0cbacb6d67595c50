"""Runs periodic tasks, such as ending expired leases, delivering webhook messages and deleting old data."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TypeAlias

import structlog
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.scheduler.active import Clock, Lost, nothing_lost
from db.engine.session import Database, StoreUnavailable
from db.repositories.artefacts import Artefacts
from db.repositories.retention import (
    YOUNG,
    collect_artefacts,
    collect_families,
    collect_log,
    collect_searches,
    collect_workers,
)
from evo.messages.view import Collected

log = structlog.get_logger("periodic")

SEARCHES_AT_ONCE = 20

WORKERS_KEPT = timedelta(days=30)
"""Time after which disconnected workers, expired tokens and revoked tokens are deleted, independent of the settings."""

STRAYS_EVERY_S = 86_400.0

JUMP_S, DOUBTED_S = 3_600.0, 3_600.0
"""After the clock jumped ahead by `JUMP_S` seconds or more, no data is deleted by age for `DOUBTED_S` seconds. The
clock also jumps ahead if the machine sleeps."""

Done: TypeAlias = Callable[[str, float, bool], None]
"""Function called with the name of a task, its duration in seconds, and True if it failed."""


@dataclass(frozen=True, kw_only=True)
class Chore:
    """A task that runs in a thread every `every_s` seconds. Failures are logged, and the task runs again."""

    name: str
    every_s: float
    work: Callable[[], object]


@contextlib.asynccontextmanager
async def regularly(chores: list[Chore], done: Done) -> AsyncIterator[None]:
    """Context manager that runs the tasks until its block ends. `done` is called after each run of a task."""
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
            log.warning("database unavailable; the task is retried", chore=chore.name, reason=str(error))
        except Exception:
            log.exception("a periodic task failed; it is retried", chore=chore.name)
        done(chore.name, time.perf_counter() - began, failed)


def _sum(*parts: Collected) -> Collected:
    counted = {field.name: [getattr(part, field.name) for part in parts] for field in fields(Collected)}
    known = {name: [value for value in values if value is not None] for name, values in counted.items()}
    return Collected(**{name: sum(values) for name, values in known.items() if values})


class _Undone(Exception):
    """Raised to roll back the transaction of a dry run."""


class Collector:
    """Deletes data so that the database and the artefact store stay within their limits.

    Args:
        keep_days, artefact_limit_gb: limits on age and total size, from the settings. None if there is no limit.
        lost_s: function that returns the total wall-clock seconds in which this process did not run since its start.
    """

    def __init__(
        self,
        database: Database,
        store: Artefacts,
        *,
        clock: Clock,
        keep_days: float | None = None,
        artefact_limit_gb: float | None = None,
        lost_s: Lost = nothing_lost,
    ) -> None:
        self._database = database
        self._store = store
        self._clock = clock
        self._keep_days = keep_days
        self._artefact_limit_gb = artefact_limit_gb
        self._lost_s = lost_s
        self._known_lost_s = lost_s()
        self._settled_from_s = 0.0
        self._looked_s: float | None = None

    def run(self) -> None:
        """Delete expired rows, and the searches and artefacts that exceed the limits in the settings.

        After the clock jumped ahead, nothing is deleted by age for an hour; the limit on the size of artefacts still
        applies. If a step fails, the remaining steps still run, unless the database is unavailable.

        Raises:
            StoreUnavailable: the database is unavailable. The remaining steps did not run.
            Exception: a step failed. The first failure is raised after all steps have run.
        """
        now = self._clock()
        parts: list[Callable[[], Collected]] = [
            lambda: self.collect(keep_days=None, artefact_limit_gb=self._artefact_limit_gb),
            lambda: Collected(files_deleted=self._strays(now)),
        ]
        if self._is_settled():
            parts = [
                lambda: self._log(now),
                lambda: self._workers(now - WORKERS_KEPT, dry_run=False),
                lambda: self.collect(keep_days=self._keep_days, artefact_limit_gb=None),
                *parts,
            ]
        done, failed = list[Collected](), list[Exception]()
        for part in parts:
            try:
                done.append(part())
            except StoreUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - raised below
                failed.append(error)
        collected = _sum(*done) if done else Collected()
        if collected != Collected(bytes_kept=collected.bytes_kept):
            log.info("old data deleted", **vars(collected))
        if failed:
            raise failed[0]

    def _is_settled(self) -> bool:
        """Return True if old data may be deleted by age, i.e. if the clock has not jumped ahead within the last hour.

        Without this delay, a clock that is wrong for some minutes would make all data look old.
        """
        lost_s, now_s = self._lost_s(), time.monotonic()
        if lost_s - self._known_lost_s >= JUMP_S:
            log.warning("the clock jumped ahead, so no data is deleted by age for an hour", seconds=lost_s)
            self._settled_from_s = now_s + DOUBTED_S
        self._known_lost_s = lost_s
        return now_s >= self._settled_from_s

    def _log(self, now: datetime) -> Collected:
        with self._database.write() as session:
            collect_log(session, now)
        return Collected()

    def _workers(self, before: datetime, *, dry_run: bool) -> Collected:
        with self._transaction(dry_run) as session:
            return collect_workers(session, before)

    def collect(self, *, keep_days: float | None, artefact_limit_gb: float | None, dry_run: bool = False) -> Collected:
        """Delete the data beyond the given limits, and return the numbers of deleted items.

        A limit of None deletes nothing. With `dry_run`, nothing is deleted, and the items are only counted.
        """
        now, artefacts, doomed = self._clock(), Collected(), list[str]()
        old = Collected() if keep_days is None else self._old(now - timedelta(days=keep_days), dry_run)
        if artefact_limit_gb is not None:
            with self._transaction(dry_run) as session:
                artefacts, doomed = collect_artefacts(session, int(artefact_limit_gb * 1e9), now)
        for digest in () if dry_run else doomed:
            try:
                self._store.remove(digest)
            except OSError as error:  # `_strays` will try to delete the file again
                log.warning("an artefact cannot be removed", digest=digest, reason=str(error))
        return _sum(old, artefacts)

    def _old(self, before: datetime, dry_run: bool) -> Collected:
        """Delete data older than `before`: searches, workers, tokens and families that are no longer used.

        Return the numbers of deleted items. With `dry_run`, the items are only counted. Families are deleted last,
        because only families without searches can be deleted.
        """
        searches = self._searches(before, dry_run)
        workers = self._workers(before, dry_run=dry_run)
        with self._transaction(dry_run) as session:
            families = collect_families(session, before)
        return _sum(searches, workers, families)

    def _strays(self, now: datetime) -> int:
        """Delete artefact files that are older than `YOUNG` and have no database row, and return their number.

        The method lists all files, which is slow. It therefore runs at most once a day; other calls return 0.
        """
        if self._looked_s is not None and time.monotonic() - self._looked_s < STRAYS_EVERY_S:
            return 0
        self._looked_s = time.monotonic()
        with self._database.look() as session:
            return self._store.remove_strays(session, (now - YOUNG).timestamp())

    def _searches(self, before: datetime, dry_run: bool) -> Collected:
        """Delete searches that ended before `before`, and return the numbers of deleted items.

        Archived searches are kept, and so is the data that champions need. With `dry_run`, the items are only counted.
        Otherwise, each transaction deletes at most `SEARCHES_AT_ONCE` searches, so that other writers do not wait long.
        """
        collected, failed = Collected(), set[int]()
        while True:
            with self._transaction(dry_run) as session:
                some, failures = collect_searches(session, before, None if dry_run else SEARCHES_AT_ONCE, failed)
            collected, failed = _sum(collected, some), failed | failures
            if dry_run or some.searches_deleted + len(failures) < SEARCHES_AT_ONCE:
                return collected

    @contextlib.contextmanager
    def _transaction(self, dry_run: bool) -> Iterator[Session]:
        with contextlib.suppress(_Undone), self._database.write() as session:
            yield session
            if dry_run:
                raise _Undone
