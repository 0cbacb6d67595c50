"""A search that has not ended, as the conductor keeps it in memory."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from api.families.catalogue import Catalogue
from db.models import SearchRow
from db.repositories.archive import Archive
from db.repositories.leases import Leases
from db.repositories.turns import Standing, Turns
from evo import strategy
from evo.device import Device
from evo.device.requirements import Requirements
from evo.messages.job import FamilyRef, SearchTerms
from evo.results import BaselineReport
from evo.search.lifecycle import State
from evo.search.search import Search
from evo.space import Space
from evo.strategy.base import Context
from evo.trial.timing import Timing

Clock = Callable[[], datetime]
Lost = Callable[[], float]
"""Seconds that the clock went further than this process ran (`api.scheduler.interruptions`)."""


def nothing_lost() -> float:
    """Where nothing interrupts: with a clock of a test's own."""
    return 0.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def beginning(space: Space, row: SearchRow) -> Context:
    """What its strategy begins with: of `warm_starts` the first are those that were recorded elsewhere, mere advice."""
    recorded = 0 if row.warm_start is None else row.warm_start.used
    return Context(space=space, warm_starts=row.warm_starts[recorded:], advice=row.warm_starts[:recorded])


class ActiveSearch:
    """Terms, history and state of one search; `lock` is held by whoever reads or changes it.

    Everything here is rebuilt from the database by `load`, so a copy that may be wrong is simply dropped.

    Attributes:
        has_queued: a job may be waiting for a worker; False spares the query.
        revision: of the row this copy was last brought up to date with.
        confirming: a confirmation waits or is worked on; False also while nobody has looked.
        unbeaten: the elites that were not fast enough for a challenge when that was last looked at.
        challenge_from_s: when, on its own clock, the next confirmation can be afforded; 0 if nobody has looked.
    """

    def __init__(self, row: SearchRow, search: Search, lost_s: Lost = nothing_lost) -> None:
        self.lock = threading.RLock()
        self.id = row.id
        self.search = search
        self.state: State = row.state
        self.started = row.started_at is not None
        self.baselines: BaselineReport | None = row.baselines
        self.roofline = row.roofline
        self.has_queued = True
        self.device_uuid = row.device_uuid
        self.requirements = row.requirements or Requirements()
        self.terms = SearchTerms(
            search_id=row.id,
            family=FamilyRef(name=row.family.name, digest=row.family.digest, location=row.family.location),
            problem=row.problem,
            device=row.device,
            objective=row.objective,
            policy=row.policy,
            seed=row.seed,
        )
        self.revision = row.revision
        self.confirming = False
        self.unbeaten: tuple[int, ...] | None = None
        self.challenge_from_s = 0.0
        self._lost_s = lost_s
        self._run_on(row.active_s, row.active_since)

    @classmethod
    def load(
        cls, session: Session, row: SearchRow, catalogue: Catalogue, lost_s: Lost = nothing_lost
    ) -> "ActiveSearch":
        """Rebuild a search from its trials, in the order they were asked and ended."""
        space = catalogue.space(row)
        search = Search(
            space=space,
            strategy=strategy.build(row.strategy, beginning(space, row)),
            budget=row.budget,
            policy=row.policy,
            seed=row.seed,
        )
        search.restore(Turns(session).log(row.id), Leases(session).challenges(row.id, row.timed_baselines))
        return cls(row, search, lost_s)

    def follow(self, session: Session, standing: Standing) -> None:
        """Learn what other processes did with this search since this copy was last up to date."""
        asked, ended, _ = self.search.events
        news = Turns(session).news(self.id, asked=asked, ended=ended)
        if standing.milestone > self.revision:
            self.baselines = self.baselines or Archive(session).baselines(self.id)
            self.search.follow(news, Leases(session).challenges(self.id, self.timed_baselines))
            self.has_queued, self.confirming = True, False
        else:
            self.search.follow(news)
        self.state, self.started = standing.state, standing.started_at is not None
        self._run_on(standing.active_s, standing.active_since)
        self.revision = standing.revision

    def fits(self, device: Device) -> bool:
        """Whether a device may work for this search, which never changes: times compare only within one model."""
        wanted = self.terms.device
        if self.device_uuid is not None and device.uuid != self.device_uuid:
            return False
        same = (device.kind, device.model, device.architecture) == (wanted.kind, wanted.model, wanted.architecture)
        return same and self.requirements.lacking(device) is None

    def elapsed_s(self, now: datetime) -> float:
        """Seconds this search has been running, without pauses and times in which the service did not run."""
        if self._active_since is None:
            return self._active_s
        lost_s = self._lost_s() - self._lost_before_s
        return self._active_s + max(0.0, (now - self._active_since).total_seconds() - lost_s)

    def enter(self, row: SearchRow, state: State, now: datetime) -> None:
        """Change the state, here and in the row; the clock runs while it is running or stopping."""
        row.state = self.state = state
        self.set_clock(row, now, running=self.started and state in {"running", "stopping"})

    def set_clock(self, row: SearchRow, now: datetime, *, running: bool) -> None:
        """Settle the seconds so far and let the clock run on, or stand."""
        row.active_s, row.active_since = self.elapsed_s(now), now if running else None
        self._run_on(row.active_s, row.active_since)

    def settle_clock(self, row: SearchRow, now: datetime) -> None:
        """Write down the seconds so far, as others work them out from the row alone."""
        self.set_clock(row, now, running=self._active_since is not None)

    def _run_on(self, active_s: float, active_since: datetime | None) -> None:
        self._active_s, self._active_since, self._lost_before_s = active_s, active_since, self._lost_s()

    def start(self, row: SearchRow, now: datetime) -> None:
        """Start the clock."""
        self.started, row.started_at = True, now
        self.set_clock(row, now, running=True)

    @property
    def timed_baselines(self) -> Mapping[str, Timing]:
        return self.baselines.timings if self.baselines else {}

    @property
    def fastest_baseline_us(self) -> float | None:
        return min((timing.median_us for timing in self.timed_baselines.values()), default=None)
