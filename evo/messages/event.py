"""Messages of the event stream. They contain only the columns of the pages' live tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from evo.messages.view import BestView
from evo.promotion.leading import Source
from evo.search.lifecycle import State
from evo.trial import Config


@dataclass(frozen=True, kw_only=True)
class TrialEvent:
    """A trial ended.

    Attributes:
        place: index of the trial among the ended trials of its search, from 0.
        outcome: kind of the trial's outcome; `reason` explains it in one line.
        time_us: time in µs; `source` states whether it is quick, confirmed or estimated. Both are None without a time.
        iqr_us: interquartile range of the quick samples in µs; None if the trial was not measured.
        suspect: True if the trial is so much faster than every baseline that a person should check it.
    """

    id: int
    search_id: int
    number: int
    place: int
    config: Config
    origin: str
    parents: tuple[int, ...]
    outcome: str
    reason: str
    time_us: float | None
    iqr_us: float | None
    suspect: bool
    asked_at: datetime
    finished_at: datetime | None
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class SearchEvent:
    """Current state of a search, sent after it changed: e.g. after a trial ended, or its state or champion changed.

    Attributes:
        reason: why the search ended or is stopping; None before that.
        asked, finished: number of proposed trials, and number of ended trials.
        counts: number of ended trials by kind of outcome.
        best: the best trial; None if no trial has a time.
        speedup: speed-up of the best trial over the fastest baseline; None without `best` or baselines. It is confirmed
            if `best` is confirmed.
        champion_id, champion_us: id and time of the current champion for the search's family, problem, device and
            objective, which another search may have found. None if there is no champion.
        elapsed_s: running time in seconds, without pauses.
        started_at, finished_at: time at which the search started, and at which it ended; None before that.
    """

    id: int
    state: State
    reason: str | None
    family: str
    problem_key: str
    device_model: str
    asked: int
    finished: int
    counts: Mapping[str, int]
    best: BestView | None
    speedup: float | None
    champion_id: int | None
    champion_us: float | None
    elapsed_s: float
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class WorkerEvent:
    """A worker registered or left, was drained or resumed, or the quarantine of one of its devices changed.

    `devices` contains the models of the worker's devices.
    """

    id: str
    name: str
    host: str
    devices: tuple[str, ...]
    drain: bool
    seen_at: datetime


@dataclass(frozen=True, kw_only=True)
class SearchDeleted:
    """A search was deleted."""

    id: int


@dataclass(frozen=True, kw_only=True)
class Reset:
    """The requested events are no longer stored; clients should reload the lists."""


Event: TypeAlias = TrialEvent | SearchEvent | WorkerEvent | SearchDeleted | Reset

EVENTS: Mapping[str, type[Event]] = {
    "trial": TrialEvent,
    "search": SearchEvent,
    "worker": WorkerEvent,
    "deleted": SearchDeleted,
    "reset": Reset,
}
"""Classes of events, by the event's name in the stream."""
