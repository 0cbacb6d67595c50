"""In-memory state of an unfinished search."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from sqlalchemy.orm import Session

from api.families import Catalogue, goal_of, second_goal_of
from db.models import ChampionRow, FamilyRow, SearchRow
from db.repositories.archive import Archive
from db.repositories.coordination import Coordination, LockedSearch
from db.repositories.leases import Leases
from evo import strategy
from evo.device import Device
from evo.device.requirements import Requirements
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.goal import Kernel
from evo.search.lifecycle import State
from evo.search.search import Search
from evo.space import Space
from evo.strategy.base import Context
from evo.trial.results import BaselineReport
from evo.trial.timing import Timing

Clock = Callable[[], datetime]
Lost = Callable[[], float]
"""Function that returns the total seconds in which this process did not run (`api.scheduler.interruptions`). The result
is negative if the clock was set back."""


def nothing_lost() -> float:
    """Return 0. This is the default `lost_s`, for processes that are never interrupted."""
    return 0.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def family_ref(row: FamilyRow) -> FamilyRef:
    """Return the reference that workers use to find a family."""
    variant = row.base_digest is not None
    return FamilyRef(name=row.name, digest=row.digest, location=row.location, variant=variant)


def beginning(space: Space, row: SearchRow) -> Context:
    """Return the context for creating the strategy of a search.

    The first `row.warm_start.used` warm starts come from other measurements or from other problems. The strategy gets
    them as advice; the others stay warm starts.
    """
    recorded = 0 if row.warm_start is None else row.warm_start.used
    return Context(space=space, warm_starts=row.warm_starts[recorded:], advice=row.warm_starts[:recorded])


class ActiveSearch:
    """Settings, history and state of an unfinished search.

    Callers must acquire `lock` before they read or change the object. An object that may be out of date can be dropped,
    because `load` rebuilds it from the database.

    Attributes:
        has_queued: False if no queued job can exist, so that the database need not be read.
        revision: revision of the search's row at the last update of this object.
        confirming: True if a confirmation was queued or leased at the last check.
        unbeaten: numbers of the best trials at the last check that found no trial to challenge the champion. None
            before the first such check.
        challenge_from_s: running time of the search in seconds from which `Policy.confirming_share` permits the next
            confirmation. 0 if unknown.
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
            family=family_ref(row.family),
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
        self._restart_clock(row.active_s, row.active_since)

    @classmethod
    def load(
        cls, session: Session, row: SearchRow, catalogue: Catalogue, lost_s: Lost = nothing_lost
    ) -> "ActiveSearch":
        """Rebuild a search from its trials, in the order in which they were proposed and ended."""
        space = catalogue.space(row)
        search = Search(
            space=space,
            strategy=strategy.build(row.strategy, beginning(space, row)),
            budget=row.budget,
            policy=row.policy,
            seed=row.seed,
            goal=goal_of(row),
            second=second_goal_of(row),
        )
        search.restore(Coordination(session).log(row.id), Leases(session).challenges(row.id, row.timed_baselines))
        return cls(row, search, lost_s)

    def follow(self, session: Session, locked: LockedSearch) -> bool:
        """Apply the changes that other processes made since the last update of this object, and return True.

        Return False if the database returned to an earlier state, e.g. because a backup was restored or a server failed
        over to a replica that lacked the last changes. The caller must then drop this object.
        """
        asked, ended, _ = self.search.events
        news = Coordination(session).news(self.id, asked=asked - 1, ended=ended - 1)
        if locked.revision < self.revision or not self.search.precedes(news):
            return False
        if locked.milestone > self.revision:
            self.baselines = self.baselines or Archive(session).baselines(self.id)
            self.search.budget = Archive(session).search(self.id).budget
            self.search.follow(news, Leases(session).challenges(self.id, self.timed_baselines))
            self.has_queued, self.confirming = True, False
        else:
            self.search.follow(news)
        self.state, self.started = locked.state, locked.started_at is not None
        self._restart_clock(locked.active_s, locked.active_since)
        self.revision = locked.revision
        return True

    def fits(self, device: Device) -> bool:
        """Return True if a device may run jobs of this search. Times are comparable only within one device model."""
        wanted = self.terms.device
        if self.device_uuid is not None and device.uuid != self.device_uuid:
            return False
        same = (device.kind, device.model, device.architecture) == (wanted.kind, wanted.model, wanted.architecture)
        return same and self.requirements.lacking(device) is None

    def elapsed_s(self, now: datetime) -> float:
        """Return the running time in seconds.

        Pauses, waits for devices that other processes hold, and time in which the service did not run are not included.
        """
        if self._active_since is None:
            return self._active_s
        lost_s = self._lost_s() - self._lost_before_s
        return self._active_s + max(0.0, (now - self._active_since).total_seconds() - lost_s)

    def cost_of(self, champion: ChampionRow, time_us: float) -> float:
        """Return the cost of a champion in this search, computed from the time `time_us`.

        Raises:
            InvalidInput: the metric of the search has no value for the champion.
        """
        if self.search.goal is None:
            return time_us
        resources = champion.evidence.report.resources.get("challenger", {})
        return self.search.goal.cost(Kernel(config=champion.config, resources=resources), time_us)

    @property
    def is_timed(self) -> bool:
        """True if the search has started and is running or stopping, so that its running time is counted."""
        return self.started and self.state in {"running", "stopping"}

    @property
    def waits_for_device(self) -> bool:
        """True while the running time is not counted, because other processes hold the devices of the search."""
        return self.is_timed and self._active_since is None

    def enter(self, row: SearchRow, state: State, now: datetime) -> None:
        """Change the state in memory and in the row.

        The clock of the running time runs in the states running and stopping, unless the search waits for its devices.
        """
        waits = self.waits_for_device
        row.state = self.state = state
        self.set_clock(row, now, running=self.is_timed and not waits)

    def set_clock(self, row: SearchRow, now: datetime, *, running: bool) -> None:
        """Store the running time so far in the row. Start the clock again if `running` is True, else stop it."""
        row.active_s, row.active_since = self.elapsed_s(now), now if running else None
        self._restart_clock(row.active_s, row.active_since)

    def settle_clock(self, row: SearchRow, now: datetime) -> None:
        """Store the running time so far, so that other processes can compute the running time from the row alone."""
        self.set_clock(row, now, running=self._active_since is not None)

    def _restart_clock(self, active_s: float, active_since: datetime | None) -> None:
        self._active_s, self._active_since, self._lost_before_s = active_s, active_since, self._lost_s()

    def start(self, row: SearchRow, now: datetime) -> None:
        """Start the clock of the running time."""
        self.started, row.started_at = True, now
        self.set_clock(row, now, running=True)

    @property
    def timed_baselines(self) -> Mapping[str, Timing]:
        return self.baselines.timings if self.baselines else {}

    @property
    def fastest_baseline_us(self) -> float | None:
        return min((timing.median_us for timing in self.timed_baselines.values()), default=None)
