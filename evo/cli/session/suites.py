"""Searches the calls of a suite with one shared budget, and selects a few configs per family.

A search starts from the best configs of earlier searches of the same family. At the end, the champion of each call is
measured on the other problems of its family.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console

from evo.cli.console.display import head, screen, space_text
from evo.cli.console.suite_result import SuiteResult
from evo.cli.service.connection import Connection
from evo.cli.service.local import WORKER
from evo.cli.service.locations import ServiceRef
from evo.cli.session.follow import POLL_S, Interrupts, Screen, follow
from evo.cli.session.request import Request
from evo.cli.session.session import begun, ended_by_signals, progress, reached
from evo.client import SearchCommand
from evo.errors import Conflict, EvoError
from evo.family.problem import distance
from evo.messages.view import SearchView, TrialView
from evo.search.gain import Progress, next_call
from evo.search.lifecycle import TERMINAL
from evo.search.suite import Call, Suite
from evo.search.suite.selection import Measurements
from evo.text.secrets import masked
from evo.trial import Config

EXCHANGE_SHARE = 0.2
"""Share of the time budget for measuring champions on the other problems of their families, over all calls."""

SLICES = 4
"""Mean number of slices per call into which the budget is divided.

A slice is the part of the budget that a search uses before it is paused, and the next search is chosen.
"""

LEAST_SLICE_S = 2.0
NEIGHBOURS = 3
"""Maximum number of earlier searches of the suite whose best configs a new search tries first."""

BEST_OF_NEIGHBOUR = 2
LEAST_MINUTES = 0.05
MOST_EXCHANGED = 6
"""Maximum number of trials of a call's second search (see `_Conductor.exchange`).

These trials are the default config and the champions of the call's own problem and of similar problems.
"""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Budget of a whole suite. At least one of `trials` and `minutes` is set; None means no limit.

    Attributes:
        trials: maximum number of trials, summed over the first searches of all calls. The second searches, which try
            the champions of similar problems (`_Conductor.exchange`), are not counted.
        minutes: maximum running time, summed over all searches. `EXCHANGE_SHARE` of it is reserved for the second
            searches. Final confirmations take additional time.
        stagnation: number of trials without improvement after which the search of a call ends.
    """

    trials: int | None = None
    minutes: float | None = None
    stagnation: int | None = None


@dataclass(kw_only=True)
class CallSearch:
    """A call of the suite and its search.

    Attributes:
        view: state of the search; None before it starts.
        best: best quick time in µs, or best cost, at the end of each slice, first slice first. An entry is None if
            nothing had been measured by then.
        trouble: reason why the search could not be started; None if there is none.
    """

    call: Call
    request: Request
    view: SearchView | None = None
    best: list[float | None] = field(default_factory=list)
    trouble: str | None = None

    @property
    def open(self) -> bool:
        return self.trouble is None and (self.view is None or self.view.state not in TERMINAL)


def run(
    suite: Suite, requests: Mapping[str, Request], where: ServiceRef, budget: Shared, *, as_json: bool
) -> SuiteResult:
    """Search the calls of a suite with one budget, then measure the champion of each call on similar problems.

    Args:
        requests: request of each call, by the name of the call. The budget of a request is replaced.
    """
    out, interrupts = progress(as_json), Interrupts()
    with (
        ended_by_signals(),
        reached(out, where, measuring=where.url is None, beginning=True) as connection,
        interrupts.listen(),
        screen(out) as shown,
    ):
        entries = [CallSearch(call=call, request=requests[call.name]) for call in suite.calls]
        session = _Session(connection=connection, where=where, interrupts=interrupts, shown=shown, out=out)
        conductor = _Conductor(suite, entries, session, budget)
        conductor.search()
        conductor.finish()
        conductor.exchange()
        return conductor.outcome()


@dataclass(frozen=True, kw_only=True)
class _Session:
    """Service, display and interrupts that the searches of a suite share."""

    connection: Connection
    where: ServiceRef
    interrupts: Interrupts
    shown: Screen
    out: Console


class _Conductor:
    """Runs a search for each call of a suite. Only one search runs at a time; the others are paused."""

    def __init__(self, suite: Suite, entries: Sequence[CallSearch], session: _Session, budget: Shared) -> None:
        self._suite, self._session, self._budget = suite, session, budget
        self._entries = {entry.call.name: entry for entry in entries}
        self._exchanged: list[tuple[str, SearchView]] = []

    def search(self) -> None:
        """Give slices of the budget to the searches with the largest expected gain (`next_call`).

        The method ends when the budget is spent, when every search has ended, or when the user presses Ctrl-C.
        """
        while not self._spent() and not self._session.interrupts.count:
            name = next_call({name: self._progress(entry) for name, entry in self._entries.items()}, self._suite.goal)
            if name is None:
                return
            self._slice(self._entries[name])

    def finish(self) -> None:
        """End every search. Unless the user cancelled the run, the best config of each search is confirmed."""
        ending: SearchCommand = "stop" if self._session.interrupts.count < 2 else "cancel"
        for entry in self._entries.values():
            if entry.view is None or entry.view.state in TERMINAL:
                continue
            self._command(entry, ending)
            entry.view = self._follow(entry.view)

    def exchange(self) -> None:
        """For each call, run a second search, which measures the champions of similar problems of the same family.

        Calls without a first search are skipped, and calls whose family has no other search that measured a config.
        The method ends when the user presses Ctrl-C.
        """
        together = [entry for entry in self._entries.values() if self._relatives(entry)]
        for entry in together:
            if self._session.interrupts.count:
                return
            trials = min(MOST_EXCHANGED, len(self._relatives(entry)) + 2)
            budget: dict[str, float] = {"trials": trials}
            if self._budget.minutes is not None:
                share = EXCHANGE_SHARE * self._budget.minutes / len(together)
                budget["minutes"] = max(LEAST_MINUTES, share)
            self._session.shown.note(f"Measuring the champions of similar problems on {entry.call.name}:")
            try:
                view = begun(
                    entry.request.with_terms(budget=budget, seed=1), self._session.connection, self._session.where
                )
            except EvoError as error:
                self._session.shown.note(f"{entry.call.name}: {error}")
                continue
            self._exchanged.append((entry.call.name, self._follow(view)))

    def outcome(self) -> SuiteResult:
        searched = [(entry.call, self._latest(entry.view)) for entry in self._entries.values() if entry.view]
        left_out = {
            name: entry.trouble or "the budget was used up before this call was searched"
            for name, entry in self._entries.items()
            if entry.view is None
        }
        families = list(dict.fromkeys(view.family for _, view in searched))
        return SuiteResult(
            suite=self._suite,
            searched=searched,
            left_out=left_out,
            measured={family: self._measurements(family) for family in families},
            interrupted=self._session.interrupts.count > 1,
        )

    def _latest(self, view: SearchView) -> SearchView:
        """Return the second search of a problem (see `exchange`) if it found the current champion, else `view`."""
        for _, exchanged in self._exchanged:
            if exchanged.problem_key == view.problem_key and exchanged.family == view.family:
                own = exchanged.champion is not None and exchanged.champion.search_id == exchanged.id
                return exchanged if own else view
        return view

    def _slice(self, entry: CallSearch) -> None:
        if entry.view is None:
            self._begin(entry)
        else:
            self._command(entry, "resume")
        if entry.view is None:
            return
        began, done = time.monotonic(), entry.view.finished
        while True:
            entry.view = self._look(entry.view)
            self._session.shown.show(entry.view)
            ended = entry.view.state in TERMINAL or self._session.interrupts.count or self._spent()
            if ended or self._slice_over(entry.view.finished - done, time.monotonic() - began):
                break
            time.sleep(POLL_S)
        entry.best.append(None if entry.view.best is None else entry.view.best.rank)
        if entry.view.state not in TERMINAL:
            self._command(entry, "pause")

    def _begin(self, entry: CallSearch) -> None:
        request = entry.request.with_terms(budget=self._own_budget())
        try:
            if advice := self._advice(entry):
                source = f"calls of suite {self._suite.name} that were searched earlier"
                request = request.with_terms(warm_start={"source": source, "configs": advice})
            entry.view = begun(request, self._session.connection, self._session.where)
        except EvoError as error:
            entry.trouble = str(error)
            self._session.shown.note(f"{entry.call.name} is left out: {error}")
            return
        self._announce(entry.call.name, entry.view)

    def _announce(self, name: str, view: SearchView) -> None:
        """Print all settings of the first search. For the other searches, print only the family and the space."""
        if any(each.view is not None and each.view.id < view.id for each in self._entries.values()):
            self._session.shown.note(f"{name}, search {view.id}: {view.subject}, {space_text(view)}")
            return
        self._session.shown.note(f"{name}, search {view.id}:")
        self._session.out.print(head(view, masked(f"{self._session.connection.client.url}/searches/{view.id}")))

    def _advice(self, entry: CallSearch) -> list[Config]:
        """Return the best configs that earlier searches of the same family have found so far, nearest problem first.

        At most `NEIGHBOURS` searches contribute, each with at most `BEST_OF_NEIGHBOUR` configs.
        """
        digest = entry.request.package.digest
        same = [other for other in self._entries.values() if other.request.package.digest == digest]
        others = [other.view for other in same if other.view is not None]
        if not others:
            return []
        problem = entry.request.instance(others[0].device.kind)
        nearest = sorted(others, key=lambda view: distance(problem, view.problem))[:NEIGHBOURS]
        found = [self._best(view, BEST_OF_NEIGHBOUR) for view in nearest]
        return [config for configs in found for config in configs]

    def _best(self, view: SearchView, count: int) -> list[Config]:
        trials = self._session.connection.ask(lambda client: client.trials(view.id, sort="rank", limit=count)).items
        return [dict(trial.config) for trial in trials if trial.has_valid_time]

    def _own_budget(self) -> dict[str, float]:
        """Return the budget of each search, which is the budget of the whole suite.

        The suite's budget is divided among the searches by pausing them.
        """
        limits = {"trials": self._budget.trials, "minutes": self._budget.minutes, "stagnation": self._budget.stagnation}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def _slice_over(self, trials: int, seconds: float) -> bool:
        """Return True if a slice has used its share of the budget. A slice lasts until at least one trial has ended."""
        if not trials:
            return False
        slices = SLICES * len(self._entries)
        if self._budget.trials is not None and trials >= max(1, self._budget.trials // slices):
            return True
        if self._budget.minutes is None:
            return False
        share_s = (1.0 - EXCHANGE_SHARE) * self._budget.minutes * 60.0 / slices
        return seconds >= max(LEAST_SLICE_S, share_s)

    def _spent(self) -> bool:
        views = [entry.view for entry in self._entries.values() if entry.view is not None]
        if self._budget.trials is not None and sum(view.finished for view in views) >= self._budget.trials:
            return True
        if self._budget.minutes is None:
            return False
        return sum(view.elapsed_s for view in views) >= (1.0 - EXCHANGE_SHARE) * self._budget.minutes * 60.0

    def _progress(self, entry: CallSearch) -> Progress:
        return Progress(weight=entry.call.weight, best=tuple(entry.best), open=entry.open)

    def _relatives(self, entry: CallSearch) -> list[SearchView]:
        """Return the other searches of the same family that have measured a config; empty if the call has no search."""
        if entry.view is None:
            return []
        others = [other.view for other in self._entries.values() if other is not entry and other.view is not None]
        return [view for view in others if view.family == entry.view.family and view.best is not None]

    def _follow(self, view: SearchView) -> SearchView:
        session = self._session
        alone = WORKER if session.where.url is None else None
        where = session.where.options
        return follow(session.connection, view.id, session.shown, session.interrupts, alone=alone, where=where)

    def _look(self, view: SearchView) -> SearchView:
        return self._session.connection.ask(lambda client: client.search(view.id))

    def _command(self, entry: CallSearch, command: SearchCommand) -> None:
        """Send a command to a search. A search that has just ended is left unchanged."""
        assert entry.view is not None
        number = entry.view.id
        try:
            entry.view = self._session.connection.ask(lambda client: client.command(number, command))
        except Conflict:
            entry.view = self._look(entry.view)

    def _measurements(self, family: str) -> Measurements:
        """Return the quick times or costs of a family's best configs on each of the family's problems.

        The best configs are the `BEST_OF_NEIGHBOUR` best configs of each first search.

        Confirmed times are not used, because only the best configs are confirmed, and confirmed times are not
        comparable with quick times.
        """
        entries = [entry for entry in self._entries.values() if entry.view and entry.view.family == family]
        configs: list[Config] = []
        for entry in entries:
            assert entry.view is not None
            configs += [each for each in self._best(entry.view, BEST_OF_NEIGHBOUR) if each not in configs]
        costs: dict[str, dict[int, float]] = {entry.call.name: {} for entry in entries}
        for name, view in self._views_of(entries):  # times of exchanges come last, and replace earlier times
            for trial in self._trials(view):
                if trial.quick_cost is not None and trial.config in configs:
                    costs[name][configs.index(trial.config)] = trial.quick_cost
        return Measurements(
            problems={entry.call.name: entry.view.problem for entry in entries if entry.view},
            weights={entry.call.name: entry.call.weight for entry in entries},
            configs=configs,
            costs=costs,
            goal=self._suite.goal,
        )

    def _views_of(self, entries: Sequence[CallSearch]) -> Iterator[tuple[str, SearchView]]:
        names = {entry.call.name for entry in entries}
        yield from ((entry.call.name, entry.view) for entry in entries if entry.view is not None)
        yield from ((name, view) for name, view in self._exchanged if name in names)

    def _trials(self, view: SearchView) -> Sequence[TrialView]:
        return self._session.connection.ask(lambda client: list(client.every_trial(view.id)))
