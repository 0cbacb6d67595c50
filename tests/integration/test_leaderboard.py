"""Every order, filter and page of the leaderboard equals a brute-force result, in rows, REST and files."""

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from api.rest.selection import selection_of, tunables_of
from api.schemas import SearchRequest
from db.queries import leaderboard
from db.queries.leaderboard import Leaderboard
from db.queries.selection import KEYS, Selection
from evo.errors import InvalidInput
from evo.messages.job import Evaluate, Lease
from evo.messages.view import TrialView
from evo.trial.outcome import CompileFailed, Measured, Outcome, Pruned, WrongAnswer
from evo.trial.timing import Timing
from tests.integration.conftest import ENGINES
from tests.integration.serving import client_of, served
from tests.integration.stage import OTHER_DIGEST, TOY, Stage
from tests.tiers import one_in

TUNABLES = {"BLOCK": {"values": [1, 2, 4, 8]}, "LAYOUT": {"values": ["row", "col"]}, "WIDE": {"values": [False, True]}}
DOCUMENT = {**TOY, "cpu": {**TOY["cpu"], "tunables": TUNABLES, "constraints": []}}
COUNT = 16
SEARCH = 1


@pytest.fixture(scope="module", params=ENGINES)
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a service, on every engine, with 16 trials: some failed, some have equal times, and one is running."""
    own = request.param == "sqlite"
    stage = Stage(tmp_path_factory.mktemp("board") / "evo.db" if own else request.getfixturevalue("postgresql").lend())
    stage.register_worker()
    stage.register_family(DOCUMENT, OTHER_DIGEST)
    asked = SearchRequest(family_digest=OTHER_DIGEST, strategy="random", seed=1, policy={"challenge_every": 99})
    assert stage.conductor.orders.submit(asked) == SEARCH
    stage.hand_in(stage.one())
    for _ in range(COUNT - 1):
        lease = stage.one()
        stage.wait(1.0)
        stage.hand_in(lease, ending(lease))
    assert isinstance(stage.one().job, Evaluate)
    yield stage
    stage.database.close()


def ending(lease: Lease) -> Outcome:
    assert isinstance(lease.job, Evaluate)
    match lease.job.number % 5:
        case 1:
            return CompileFailed(log="kernel.c:7: error: Unknown Pragma")
        case 3:
            return WrongAnswer(reason="case tail: =100% off")
    time_us = float(lease.job.config["BLOCK"])
    if lease.job.number == 10:
        return Pruned(timing=Timing(samples_us=(time_us,)), threshold_us=1.0)
    return Measured(timing=Timing(samples_us=(time_us,) * 7), resources={"registers": 32.0})


def selected(stage: Stage, **words: Any) -> Selection:
    with stage.database.read() as session:
        tunables = tunables_of(session, stage.conductor.catalogue, SEARCH)
    return selection_of((SEARCH,), tunables, **words)


def numbers(stage: Stage, selection: Selection, limit: int = 5) -> list[int]:
    """Return all trial numbers of a selection, read page by page. Check that cursors give the same numbers."""
    with stage.database.read() as session:
        board, paged, followed, place = Leaderboard(session), [], [], None
        for offset in itertools.count(0, limit):
            rows = board.page(selection, offset=offset, limit=limit)
            after = board.after(selection, place, limit=limit)
            paged += [row.number for row in rows]
            followed += [row.number for row in after]
            looked, counted = board.look(selection, offset=offset, limit=limit, most=100)
            assert [row.number for row in looked] == [row.number for row in rows]
            assert counted == board.count(selection, most=100)
            assert board.look(selection, offset=offset, limit=limit, most=2)[0] == looked
            if not rows:
                break
            place = board.place(selection, after[-1].id)
        assert paged == followed
        assert board.count(selection, most=100) == len(paged)
        assert board.count(selection, most=3) == min(3, len(paged))
    return paged


KEY_OF: dict[str, Callable[[TrialView], Any]] = {
    "rank": lambda trial: trial.time_us,
    "number": lambda trial: trial.number,
    "ended": lambda trial: trial.finished_at,
    "outcome": lambda trial: trial.outcome and trial.outcome.kind,
    "origin": lambda trial: trial.origin,
    "overhead": lambda trial: trial.overhead_ms,
    "BLOCK": lambda trial: trial.config["BLOCK"],
    "LAYOUT": lambda trial: trial.config["LAYOUT"],
    "WIDE": lambda trial: trial.config["WIDE"],
}


@pytest.mark.parametrize("key", one_in(3, [*KEYS, *TUNABLES]))
def test_leaderboard_order_equals_sorting_all_trials_by_the_key(stage: Stage, key: str) -> None:
    trials, key_of = stage.trials(SEARCH), KEY_OF[key]
    keyed = [trial for trial in trials if key_of(trial) is not None]
    rest = [trial.number for trial in trials if key_of(trial) is None]
    for sign, reverse in (("", False), ("-", True)):
        expected = sorted(keyed, key=lambda trial: (key_of(trial), trial.number), reverse=reverse)
        assert numbers(stage, selected(stage, sort=sign + key)) == [trial.number for trial in expected] + rest


@pytest.mark.parametrize("nearby", one_in(3, [2, 7, 1000]))
@pytest.mark.parametrize("limit", one_in(2, [3, 1]))
def test_leaderboard_pages_sorted_by_a_tunable_are_independent_of_the_scan_size(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, nearby: int, limit: int
) -> None:
    monkeypatch.setattr(leaderboard, "NEARBY", nearby)
    for sort in ("BLOCK", "-BLOCK", "WIDE", "-WIDE", "-LAYOUT"):
        whole = numbers(stage, selected(stage, sort=sort), limit=limit)
        measured = numbers(stage, selected(stage, sort=sort, outcomes=("measured",)), limit=limit)
        kept = {trial.number for trial in stage.trials(SEARCH) if trial.time_us is not None}
        assert measured == [number for number in whole if number in kept]


def rowed(trial: TrialView) -> bool:
    return trial.config["LAYOUT"] == "row"


@pytest.mark.parametrize(
    ("words", "meets"),
    [
        ({"where": "BLOCK=4"}, lambda trial: trial.config["BLOCK"] == 4),
        ({"where": "BLOCK==4|8"}, lambda trial: trial.config["BLOCK"] in (4, 8)),
        ({"where": " BLOCK >= 2, BLOCK<8 "}, lambda trial: 2 <= trial.config["BLOCK"] < 8),
        (
            {"where": "BLOCK>2.5,LAYOUT=col"},
            lambda trial: trial.config["BLOCK"] > 2 and trial.config["LAYOUT"] == "col",
        ),
        ({"where": "WIDE=true,BLOCK<=4"}, lambda trial: trial.config["WIDE"] is True and trial.config["BLOCK"] <= 4),
        (
            {"where": "LAYOUT!=row,BLOCK!=1|2"},
            lambda trial: trial.config["LAYOUT"] == "col" and trial.config["BLOCK"] > 2,
        ),
        ({"outcomes": ("measured",)}, lambda trial: trial.time_us is not None),
        ({"outcomes": ("measured",), "sort": "-number"}, lambda trial: trial.time_us is not None),
        ({"outcomes": ("pending",)}, lambda trial: trial.outcome is None),
        ({"outcomes": ("pending", "wrong_answer")}, lambda trial: trial.outcome is None or trial.number % 5 == 3),
        ({"text": "unknown pragma"}, lambda trial: trial.number % 5 == 1),
        ({"text": "100%"}, lambda trial: trial.number % 5 == 3),
        ({"text": "WRONG", "sort": "-BLOCK"}, lambda trial: trial.number % 5 == 3 and trial.outcome is not None),
        ({"text": "%"}, lambda trial: trial.number % 5 == 3 and trial.outcome is not None),
        ({"text": "a", "sort": "-rank"}, lambda trial: True),
        ({"text": "wrong_"}, lambda trial: trial.number % 5 == 3 and trial.outcome is not None),
        ({"text": "samples_us"}, lambda trial: False),
        ({"text": "parents"}, lambda trial: False),
        ({"text": '"'}, lambda trial: False),
        ({"text": "slowest elite"}, lambda trial: trial.number == 10),
        ({"text": "12"}, lambda trial: trial.number == 12),
        ({"text": "block 4"}, lambda trial: trial.config["BLOCK"] == 4),
        ({"text": "LAYOUT=col, wide"}, lambda trial: trial.config["LAYOUT"] == "col"),
    ],
)
def test_leaderboard_filters_return_exactly_the_matching_trials(
    stage: Stage, words: dict[str, Any], meets: Callable[[TrialView], bool]
) -> None:
    found = numbers(stage, selected(stage, **words))
    assert sorted(found) == [trial.number for trial in stage.trials(SEARCH) if meets(trial)]


@pytest.mark.parametrize(
    ("words", "field", "reason"),
    [
        ({"where": "BLOKC=4"}, "where", "did you mean `BLOCK`"),
        ({"where": "BLOCK=3"}, "where", "BLOCK: .*not one of 1, 2, 4, 8"),
        ({"where": "BLOCK>x"}, "where", "not a finite number"),
        ({"where": "LAYOUT<row"}, "where", "use = or !="),
        ({"where": "BLOCK"}, "where", "NAME=VALUE; write e.g. `BLOCK>=2`"),
        ({"sort": "tempo"}, "sort", "there is no `tempo`"),
    ],
)
def test_error_names_the_invalid_leaderboard_filter(
    stage: Stage, words: dict[str, str], field: str, reason: str
) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        selected(stage, **words)
    assert caught.value.field == field


def test_trials_have_their_rank_in_the_whole_search_and_their_worker(stage: Stage) -> None:
    trials = stage.trials(SEARCH)
    ranked = sorted(
        (trial for trial in trials if trial.time_us is not None), key=lambda trial: (trial.time_us, trial.id)
    )
    some = [trial.id for trial in ranked[3:6]]
    with stage.database.read() as session:
        board = Leaderboard(session)
        assert board.ranks([SEARCH], some) == {some[0]: 4, some[1]: 5, some[2]: 6}
        measurers = board.measurers([trials[0].id, trials[-1].id])
    assert list(measurers) == [trials[0].id]
    assert measurers[trials[0].id].worker == "w1"


@pytest.fixture(scope="module")
def http(stage: Stage) -> Iterator[httpx.Client]:
    with served(stage.location) as url, client_of(url) as client:
        yield client


def test_trial_list_cursor_of_a_different_order_is_refused(stage: Stage, http: httpx.Client) -> None:
    path = f"/searches/{SEARCH}/trials"
    words: dict[str, str | int] = {"sort": "-BLOCK", "where": "LAYOUT=row", "limit": 3}
    seen, cursor = [], None
    while True:
        page = http.get(path, params={**words, **({"cursor": cursor} if cursor else {})}).json()
        seen += [item["number"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = page["next"]
    assert seen == numbers(stage, selected(stage, sort="-BLOCK", where="LAYOUT=row"))
    for sort in ("LAYOUT", "origin", "WIDE"):
        refused = http.get(path, params={"sort": sort, "cursor": cursor})
        assert (refused.status_code, refused.json()["field"]) == (422, "cursor")
    refused = http.get(path, params={"where": "NOPE=1"})
    assert (refused.status_code, refused.json()["field"]) == (422, "where")


def test_trial_exports_contain_every_matching_trial(stage: Stage, http: httpx.Client) -> None:
    path = f"/searches/{SEARCH}/trials"
    everything = http.get(path, params={"limit": 500}).json()["items"]
    assert http.get(f"{path}.json").json() == everything
    lines = http.get(f"{path}.ndjson", params={"sort": "-number", "outcome": ["measured", "pending"]}).text.splitlines()
    kept = [item for item in reversed(everything) if item["outcome"] is None or item["outcome"]["kind"] == "measured"]
    assert [json.loads(line) for line in lines] == kept
    answer = http.get(f"{path}.csv", params={"sort": "rank"})
    assert "attachment" in answer.headers["content-disposition"]
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [int(line["number"]) for line in table] == numbers(stage, selected(stage, sort="rank"))
    assert table[0].keys() >= {"BLOCK", "LAYOUT", "WIDE", "time_us", "low_us", "registers", "reason"}
    assert {line["WIDE"] for line in table} == {"true", "false"}
    assert float(table[0]["low_us"]) <= float(table[0]["time_us"]) == float(table[0]["BLOCK"])
    assert http.get("/searches/99/trials.csv").status_code == 404
    assert http.get(f"{path}.csv", params={"where": "NOPE=1"}).status_code == 422
