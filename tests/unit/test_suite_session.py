"""The searches of a suite share one budget and their results, tested with a fake service."""

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from evo.cli.console.suite_result import SuiteResult, print_suite, suite_document
from evo.cli.exits import Exit
from evo.cli.service.locations import ServiceRef
from evo.cli.session import follow as following
from evo.cli.session import suites as session
from evo.cli.session.request import Request
from evo.cli.session.suites import Shared
from evo.errors import Conflict
from evo.messages.view import BestView, Page, SearchView, TrialView
from evo.promotion.leading import Figure
from evo.search.suite import suite_from
from evo.trial.outcome import Measured
from evo.trial.timing import Timing
from templates import registry
from tests.unit.views import CHAMPION, NOW, view

TIMES = {8: (100.0, 60.0, 40.0, 30.0, 25.0), 16: (50.0, 50.0, 50.0, 50.0, 50.0)}
"""Best time in µs after each trial, by the number of rows of the problem."""


class Service:
    """A fake service: a search runs one trial at each query, and all requests are recorded."""

    url = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.metric: float | None = None
        self.stored: dict[int, SearchView] = {}
        self.terms: list[Mapping[str, Any]] = []
        self.commands: list[tuple[int, str]] = []
        self.finished_at_pause: list[int] = []
        self.looks_before_a_trial = 0
        self.looks: Counter[int] = Counter()

    @property
    def client(self) -> "Service":
        return self

    def ask(self, question: Callable[[Any], Any], on_silence: object = None) -> Any:
        return question(self)

    def create(self, request: Request, _connection: Any, _where: ServiceRef) -> SearchView:
        problem = request.instance("cpu")
        if problem["rows"] == 999:
            raise Conflict("no device fits the problem")
        number, budget = len(self.stored) + 1, request.terms["budget"]
        self.terms.append(request.terms)
        made = view(
            id=number, family="softmax", problem=problem, problem_key=f"rows={problem['rows']}", finished=0, best=None
        )
        self.stored[number] = replace(made, budget=replace(made.budget, trials=budget.get("trials"), minutes=None))
        return self.stored[number]

    def search(self, number: int) -> SearchView:
        now = self.stored[number]
        self.looks[number] += 1
        if now.state == "running" and self.looks[number] > self.looks_before_a_trial:
            now = self._trial(now)
        elif now.state == "stopping":
            champion = replace(CHAMPION, search_id=number, id=number)
            now = replace(now, state="finished", reason="stopped", champion=champion)
        self.stored[number] = now
        return now

    def command(self, number: int, command: str) -> SearchView:
        self.commands.append((number, command))
        if command == "pause":
            self.finished_at_pause.append(self.stored[number].finished)
        states = {"pause": "paused", "resume": "running", "stop": "stopping", "cancel": "cancelled"}
        self.stored[number] = replace(self.stored[number], state=states[command])  # type: ignore[arg-type]
        return self.stored[number]

    def trials(self, number: int, *, sort: str, limit: int) -> Page[TrialView]:
        return Page(items=tuple(list(self.every_trial(number))[:limit]))

    def every_trial(self, number: int) -> Iterator[TrialView]:
        now = self.stored[number]
        if now.best is not None:
            cost = None if self.metric is None else self.metric * now.best.time_us
            yield trial(number, now.best.config, now.best.time_us, cost)

    def workers(self) -> Page[Any]:
        return Page(items=())

    def _trial(self, now: SearchView) -> SearchView:
        rows, done = int(now.problem["rows"]), now.finished + 1
        series = TIMES[rows]
        best = BestView(number=done, config={"ROWS": rows}, time_us=series[min(done, len(series)) - 1])
        over = now.budget.trials is not None and done >= now.budget.trials
        return replace(now, finished=done, best=best, state="finished" if over else "running")


def trial(search: int, config: Mapping[str, Any], time_us: float, cost: float | None = None) -> TrialView:
    return TrialView(
        id=1,
        search_id=search,
        number=1,
        config=dict(config),
        origin="design",
        parents=(),
        outcome=Measured(timing=Timing(samples_us=(time_us,)), cost=cost),
        cost=cost,
        time_us=time_us,
        asked_at=NOW,
    )


class Silent:
    def __init__(self) -> None:
        self.notes: list[str] = []

    def show(self, _view: SearchView) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    made = Service()

    @contextmanager
    def reached(*_: Any, **__: Any) -> Iterator[Service]:
        yield made

    @contextmanager
    def screen(_: Console) -> Iterator[Silent]:
        yield Silent()

    for place in (session, following):
        monkeypatch.setattr(place, "POLL_S", 0.0)
    monkeypatch.setattr(session, "reached", reached)
    monkeypatch.setattr(session, "screen", screen)
    monkeypatch.setattr(session, "begun", made.create)
    return made


def searched(rows: tuple[int, ...], budget: Shared, goal: str = "ratio") -> SuiteResult:
    calls = [{"name": f"r{each}", "family": "softmax", "problem": {"rows": each}} for each in rows]
    suite = suite_from({"call": calls, "goal": goal}, "mine")
    package = registry.find("softmax")
    requests = {
        call.name: Request(family="softmax", package=package, terms={"problem": call.text}) for call in suite.calls
    }
    return session.run(
        suite, requests, ServiceRef(url="http://127.0.0.1:1", token=None, database=None), budget, as_json=True
    )


def test_suite_gives_more_of_its_budget_to_the_search_that_improves(service: Service) -> None:
    found = searched((8, 16), Shared(trials=8))
    first, second = service.stored[1], service.stored[2]
    assert first.finished > second.finished >= 1
    assert first.finished + second.finished == 8
    assert found.exit is Exit.DONE
    assert [number for number, command in service.commands if command == "stop"] == [1, 2]


def test_suite_prints_device_and_shared_budget_once(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    searched((8, 16), Shared(trials=4))
    printed = capsys.readouterr().err
    assert [printed.count(row) for row in ("Search 1  softmax", "Search 2  softmax", "budget ")] == [1, 0, 1]


def test_suite_measures_costs_by_the_metric_of_its_searches(service: Service) -> None:
    service.metric = 3.0
    found = searched((8, 16), Shared(trials=6), goal="worst").measured["softmax"]
    assert found.goal == "worst"
    costs = sorted(cost for by_config in found.costs.values() for cost in by_config.values())
    times = sorted(now.best.time_us for now in service.stored.values() if now.best is not None)
    assert set(costs) <= {3.0 * time for time in times}


def test_time_slice_of_a_suite_search_lasts_at_least_until_a_trial_has_ended(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A time slice may end before the device is free."""
    monkeypatch.setattr(session, "SLICES", 10**9)
    monkeypatch.setattr(session, "LEAST_SLICE_S", 0.0)
    service.looks_before_a_trial = 3
    searched((8, 16), Shared(trials=6, minutes=4.0))
    assert len(service.finished_at_pause) >= 2 and min(service.finished_at_pause) >= 1


def test_suite_pauses_a_search_before_the_next_search_continues(service: Service) -> None:
    searched((8, 16), Shared(trials=6))
    slices = [(number, command) for number, command in service.commands if command in ("pause", "resume")]
    assert slices[:2] == [(1, "pause"), (2, "pause")]
    for (paused, first), (resumed, second) in zip(slices[2::2], slices[3::2], strict=False):
        assert (paused, first, second) == (resumed, "resume", "pause")


def test_later_suite_searches_start_with_the_best_configs_of_earlier_searches(service: Service) -> None:
    searched((8, 16), Shared(trials=4))
    first, second = service.terms[:2]
    assert "warm_start" not in first
    assert second["warm_start"] == {
        "source": "calls of suite mine that were searched earlier",
        "configs": [{"ROWS": 8}],
    }


def test_suite_measures_each_best_config_on_the_remaining_problems(service: Service) -> None:
    searched((8, 16), Shared(trials=4))
    assert [terms["budget"] for terms in service.terms[2:]] == [{"trials": 3}, {"trials": 3}]


def test_suite_call_without_a_suitable_device_is_listed_with_the_reason(service: Service) -> None:
    found = searched((8, 999), Shared(trials=4))
    assert found.left_out == {"r999": "no device fits the problem"}
    document = suite_document(found, 2)
    assert [each["name"] for each in document["calls"]] == ["r8"]
    assert document["left_out"] == found.left_out
    assert document["families"]["softmax"]["table"] == {"r8": 0}


def test_suite_without_any_search_exits_with_the_nothing_found_code(service: Service) -> None:
    found = searched((999,), Shared(trials=4))
    assert found.exit is Exit.NOTHING_FOUND


def test_suite_report_names_the_source_and_the_baseline_of_each_speedup(service: Service) -> None:
    found = searched((8,), Shared(trials=2))
    (call, ended), out = found.searched[0], Console(file=io.StringIO(), width=200)
    speedup = Figure(value=1.5, unit="x", source="confirmed", against="confirmed-baseline")
    assert ended.best is not None
    best = replace(ended.best, time_us=30.0, source="confirmed", quick_us=25.0, speedup=speedup)
    shown = replace(found, searched=((call, replace(ended, best=best, fastest_baseline="quick-baseline")),))
    print_suite(out, shown, 2, "")
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    assert "30 µs (confirmed)" in text and "1.50× (confirmed) confirmed-baseline" in text
    assert "quick-baseline" not in text
    document = suite_document(shown, 2)["calls"][0]
    assert (document["source"], document["speedup"], document["baseline"]) == ("confirmed", 1.5, "confirmed-baseline")


@pytest.mark.parametrize("cost", [None, 75.0])
def test_suite_compares_configs_by_costs_from_quick_samples(cost: float | None) -> None:
    timing = Timing(samples_us=(25.0,))
    quick = replace(trial(1, {"ROWS": 8}, 25.0), outcome=Measured(timing=timing, cost=cost), cost=cost)
    confirmed = replace(quick, time_us=30.0, quick_us=25.0, cost=None if cost is None else 90.0)
    assert quick.quick_cost == confirmed.quick_cost == (cost or 25.0)
