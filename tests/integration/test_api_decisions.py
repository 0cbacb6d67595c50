"""Changes of searches and champions are guarded by ETags, stored, listed, and applied only once."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from api.auth.permission import rules
from api.http.paging import to_cursor
from db.engine.location import Location
from db.models import AnswerRow
from db.repositories.retention import collect_log
from evo.text.limits import LARGEST_ID
from tests.integration.local import Local, local
from tests.integration.stage import DIGEST, answer
from tests.integration.test_api import REPORT

NUMBERS = re.compile(r"\{(search_id|trial_id|champion_id|attempt_id|number)\}")


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        yield rest


@pytest.fixture
def rest_on_every_engine(locations: Callable[[], Location], tmp_path: Path) -> Iterator[Local]:
    """Yield a service in this process, on a database of each engine."""
    with local(locations(), artefacts=tmp_path / "artefacts") as rest:
        rest.prepare()
        yield rest


def problem_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = response.json()
    return found


def ended(rest: Local, **terms: Any) -> int:
    search = rest.submit(**{"budget": {"trials": 1}, **terms})["id"]
    rest.play()
    return int(search)


def listed(rest: Local, path: str, key: str = "id", **query: Any) -> list[Any]:
    """Return all items of a list, read in pages of two items."""
    found: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        page = rest.http.get(path, params={"limit": 2, **query, **cursor})
        assert page.status_code == 200, page.text
        found += [item[key] for item in page.json()["items"]]
        if page.json()["next"] is None:
            return found
        cursor = {"cursor": page.json()["next"]}


@pytest.mark.slow
def test_notes_priority_and_archive_state_of_a_search_can_be_edited(rest: Local) -> None:
    search = rest.submit(notes="first idea", priority=2)
    assert (search["notes"], search["priority"], search["archived"]) == ("first idea", 2, False)
    path = f"/searches/{search['id']}"
    problem_of(rest.http.patch(path, json={"archived": True}), 409)
    changed = rest.http.patch(path, json={"notes": "<b>better</b>"}).json()
    assert (changed["notes"], changed["priority"]) == ("<b>better</b>", 2)
    for body, field in (({"priority": 1001}, "priority"), ({"note": "x"}, "note"), ({"notes": "x" * 20_001}, "notes")):
        assert problem_of(rest.http.patch(path, json=body), 422)["field"] == field
    rest.http.post(f"{path}/cancel")
    assert rest.http.patch(path, json={"archived": True}).json()["archived"]
    assert listed(rest, "/searches") == []
    assert listed(rest, "/searches", archived="true") == listed(rest, "/searches", archived="any") == [search["id"]]
    assert not rest.http.patch(path, json={"archived": False}).json()["archived"]
    assert listed(rest, "/searches") == [search["id"]]


def test_searches_get_work_by_priority_and_then_by_age(rest: Local) -> None:
    old, new, urgent = rest.submit()["id"], rest.submit(seed=1)["id"], rest.submit(seed=2, priority=5)["id"]
    assert rest.claim()[0].terms.search_id == urgent
    rest.http.patch(f"/searches/{new}", json={"priority": 6})
    assert rest.claim()[0].terms.search_id == new
    for search in (new, urgent):
        rest.http.patch(f"/searches/{search}", json={"priority": 0})
    assert rest.claim()[0].terms.search_id == old
    assert listed(rest, "/searches", sort="priority") == [old, new, urgent]


def test_running_search_and_search_with_champion_cannot_be_deleted(rest_on_every_engine: Local) -> None:
    rest = rest_on_every_engine
    running = rest.submit(problem="N=32")["id"]
    assert "cancel it" in problem_of(rest.http.delete(f"/searches/{running}"), 409)["detail"]
    rest.claim()
    rest.http.post(f"/searches/{running}/cancel")
    crowned = ended(rest)
    assert "contains the evidence of champion 1" in problem_of(rest.http.delete(f"/searches/{crowned}"), 409)["detail"]
    assert rest.http.delete(f"/searches/{running}").status_code == 204
    for path in (f"/searches/{running}", f"/searches/{running}/trials", f"/searches/{running}/events"):
        problem_of(rest.http.get(path), 404)
    problem_of(rest.http.delete(f"/searches/{running}"), 404)
    assert listed(rest, "/searches") == [crowned]
    assert rest.submit()["id"] > running


def test_search_change_with_an_outdated_etag_is_refused(rest: Local) -> None:
    search = rest.submit()["id"]
    path = f"/searches/{search}"
    seen = rest.http.get(path).headers["etag"]
    rest.report(rest.claim()[0])
    assert rest.http.get(path).headers["etag"].partition(".")[0] == seen.partition(".")[0]
    edited = rest.http.patch(path, json={"notes": "mine"}, headers={"If-Match": f'"other", {seen}'})
    assert edited.status_code == 200
    for method, where in (("PATCH", path), ("POST", f"{path}/cancel"), ("DELETE", path)):
        body = {"notes": "theirs"} if method == "PATCH" else None
        problem_of(rest.http.request(method, where, json=body, headers={"If-Match": seen}), 412)
    assert rest.http.get(path).json()["notes"] == "mine"
    now = {"If-Match": rest.http.get(path).headers["etag"]}
    assert rest.http.post(f"{path}/cancel", headers=now).json()["state"] == "cancelled"
    assert rest.http.delete(path, headers={"If-Match": "*"}).status_code == 204


@pytest.mark.slow
def test_rollback_and_restore_need_the_current_etag(rest: Local) -> None:
    ended(rest)
    first = rest.http.get("/champions/1")
    ended(rest, seed=1, budget={"trials": 14})
    (current,) = rest.http.get("/champions").json()["items"]
    assert current["id"] == 2
    outdated = {"If-Match": first.headers["etag"]}
    problem_of(rest.http.post("/champions/1/rollback", json={"reason": "x"}, headers=outdated), 412)
    for path in ("rollback", "promote"):
        problem_of(rest.http.post(f"/champions/2/{path}", json={"reason": " \t ", "over": None}), 422)
    promote = {"reason": "measured elsewhere", "over": None}
    problem_of(rest.http.post("/champions/1/promote", json=promote), 409)
    known = {"If-Match": rest.http.get("/champions/1").headers["etag"]}
    restored = rest.http.post("/champions/1/promote", json={**promote, "over": 2}, headers=known)
    assert (restored.status_code, restored.json()["current"]) == (200, True)
    assert "champion 1 was restored" in rest.http.get("/champions/2").json()["retired_reason"]
    assert rest.http.post("/champions/1/promote", json={**promote, "over": 2}).json()["current"]
    assert listed(rest, "/champions", history=True, sort="fastest") == [2, 1]
    assert listed(rest, "/champions", history=True, sort="oldest") == [1, 2]


@pytest.mark.slow
def test_search_worker_and_family_lists_are_filtered_and_sorted(rest_on_every_engine: Local) -> None:
    rest = rest_on_every_engine
    small, large = ended(rest, problem="N=32", notes="what of 100%?"), ended(rest, problem="N=64")
    running = rest.submit(problem="N=32", priority=-1)["id"]
    assert listed(rest, "/searches") == [running, large, small]
    assert listed(rest, "/searches", sort="oldest") == [small, large, running]
    assert listed(rest, "/searches", problem="N=32") == [running, small]
    assert listed(rest, "/searches", state="finished", device="Toy CPU", family="toy") == [large, small]
    assert listed(rest, "/searches", device="Another") == listed(rest, "/searches", family="softmax") == []
    assert listed(rest, "/searches", text="100%") == [small]
    assert listed(rest, "/searches", text="%") == [small]
    problem_of(rest.http.get("/searches", params={"sort": "best"}), 422)
    devices = rest.http.get("/workers").json()["items"][0]["devices"]
    for name in ("w3", "w2"):
        rest.http.put(f"/workers/{name}", json={"name": name, "host": "here", "devices": devices})
    rest.http.put("/workers/w4", json={"name": "w4", "host": "here", "devices": []})
    assert listed(rest, "/workers") == ["w4", "w2", "w3", "w1"]
    assert listed(rest, "/workers", sort="id", device="cpu") == ["w1", "w2", "w3"]
    assert listed(rest, "/families", "name", text="TOY") == ["toy"]
    assert listed(rest, "/families", "name", text="%") == []


def test_out_of_range_ids_give_404_or_422_on_every_route(rest_on_every_engine: Local) -> None:
    """The other items of a batch are accepted even if the id of one item is out of range."""
    ended(rest_on_every_engine)
    rules_of = [(method, path) for method, path, _ in rules(rest_on_every_engine.app) if NUMBERS.search(path)]
    assert len(rules_of) > 30
    root = str(rest_on_every_engine.http.base_url).partition("/api/")[0]
    for method, path in rules_of:
        url = root + NUMBERS.sub(str(LARGEST_ID + 1), path).format_map(Names())
        answered = rest_on_every_engine.http.request(
            method, url, json={"token": "t", "reason": "x", "over": LARGEST_ID + 1}
        )
        assert answered.status_code in {404, 422}, f"{method} {url}: {answered.text[:300]}"
    for query in ("left=1.5000000000&right=1.0", "left=5000000000&right=1.0", "left=0&right=0&search=5000000000"):
        assert rest_on_every_engine.http.get(f"{root}/compare?{query}", follow_redirects=True).status_code in {404, 422}
    problem_of(
        rest_on_every_engine.http.get("/searches", params={"sort": "priority", "cursor": to_cursor([10**10, 1])}), 422
    )
    rest_on_every_engine.submit()
    (lease,) = rest_on_every_engine.claim()
    report = REPORT.dump_python(answer(lease), mode="json")
    ids = (5 * 10**9, lease.attempt_id, 2**70, 0)
    beat = rest_on_every_engine.http.post("/workers/w1/heartbeat", json={"attempts": ids})
    assert beat.json()["cancel"] == [0, 5 * 10**9, 2**70], "there is no such attempt"
    results = [{"attempt_id": each, "token": lease.token, "report": report} for each in ids]
    answers = rest_on_every_engine.http.post("/results", json={"results": results}).json()["answers"]
    assert [each["status"] for each in answers] == ["unknown", "accepted", "unknown", "unknown"]


class Names(dict[str, str]):
    """Valid values of path parameters that are not ids."""

    def __missing__(self, name: str) -> str:
        return "ab" * 32 if name == "digest" else "csv" if name == "form" else "x"


def test_post_repeated_with_its_idempotency_key_is_executed_once(rest: Local) -> None:
    key = {"Idempotency-Key": "a try"}
    first = rest.http.post("/searches", json={"family_digest": "ab" * 32}, headers=key)
    again = rest.http.post("/searches", json={"family_digest": "ab" * 32}, headers=key)
    assert (again.status_code, again.content) == (first.status_code, first.content) == (201, first.content)
    assert again.headers["content-type"] == first.headers["content-type"]
    assert "idempotency-replayed" in again.headers
    assert "idempotency-replayed" not in first.headers
    assert listed(rest, "/searches") == [first.json()["id"]]
    other = rest.http.post("/searches", json={"family_digest": "ab" * 32, "seed": 1}, headers=key)
    assert problem_of(other, 422)["field"] == "idempotency-key"
    problem_of(rest.http.post("/searches/1/pause", headers=key), 422)
    for bad in ("", "x" * 256):
        assert problem_of(rest.http.post("/searches", json={}, headers={"Idempotency-Key": bad}), 422)["field"]


def test_idempotency_key_is_reusable_after_refusal_but_not_after_interruption(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, key = {"family_digest": "cd" * 32}, {"Idempotency-Key": "k"}
    problem_of(rest.http.post("/searches", json=body, headers=key), 404)
    problem_of(rest.http.post("/searches", json={}, headers=key), 422)
    known = {"family_digest": "ab" * 32}
    with monkeypatch.context() as broken:
        broken.setattr("api.rest.searches.search_view", lambda *_: 1 / 0)
        rest.http.headers["connection"] = "close"
        problem_of(rest.http.post("/searches", json=known, headers=key), 500)
    refused = problem_of(rest.http.post("/searches", json=known, headers=key), 409)
    assert "use a new key" in refused["detail"]
    assert listed(rest, "/searches") == [1]


def test_idempotency_keys_are_separate_per_caller_and_store_no_token_secrets(rest: Local) -> None:
    body, key = {"family_digest": "ab" * 32}, {"Idempotency-Key": "the same"}
    made = rest.http.post("/tokens", json={"name": "first", "roles": ["admin"]}, headers=key)
    admin = {"Authorization": f"Bearer {made.json()['secret']}"}
    other = rest.http.post("/tokens", json={"name": "second", "roles": ["submitter"]}, headers=admin).json()["secret"]
    callers = [admin, {"Authorization": f"Bearer {other}"}]
    ids = [rest.http.post("/searches", json=body, headers={**key, **caller}).json()["id"] for caller in callers * 2]
    assert ids == [1, 2, 1, 2]
    again = {"name": "third", "roles": ["viewer"]}
    assert rest.http.post("/tokens", json=again, headers={"Idempotency-Key": "k", **admin}).status_code == 201
    problem_of(rest.http.post("/tokens", json=again, headers={"Idempotency-Key": "k", **admin}), 409)
    with rest.service.database.read() as session:
        assert not any(b"secret" in (row.body or b"") for row in session.scalars(select(AnswerRow)))


def test_idempotency_keys_stay_valid_after_a_clock_jump_until_they_are_deleted(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, key = {"family_digest": "ab" * 32}, {"Idempotency-Key": "k"}
    rest.http.post("/searches", json=body, headers=key)
    clock = rest.service.conductor.clock
    monkeypatch.setattr(rest.service.conductor, "clock", lambda: clock() + timedelta(hours=25))
    assert rest.http.post("/searches", json=body, headers=key).json()["id"] == 1
    with rest.service.database.write() as session:
        collect_log(session, clock() + timedelta(hours=25))
    monkeypatch.setattr(rest.service.conductor, "clock", clock)
    assert rest.http.post("/searches", json=body, headers=key).json()["id"] == 2


def test_warm_start_configs_are_tried_first_and_invalid_configs_are_counted(rest: Local) -> None:
    configs = [{"BLOCK": 16, "UNROLL": 4}, {"BLOCK": 8}, {"BLOCK": 8, "UNROLL": 1}, {"WIDTH": 3}, {"BLOCK": 3}]
    view = rest.submit(strategy="portfolio", warm_start={"source": "cache.json", "configs": configs})
    assert view["warm_start"] == {"source": "cache.json", "used": 1, "invalid": 3, "spare": 1, "predicted": False}
    rest.report(rest.claim()[0])
    assert vars(rest.claim()[0].job)["config"] == {"BLOCK": 8, "UNROLL": 1}


def test_warm_start_with_unknown_tunables_is_refused_with_a_suggestion(rest: Local) -> None:
    configs = [{"BLOKC": 16}, {"BLOKC": 8, "UNROLL": 1}]
    body = {"family_digest": DIGEST, "warm_start": {"source": "cache.json", "configs": configs}}
    problem = problem_of(rest.http.post("/searches", json=body), 422)
    assert "warm_start" in str(problem)
    assert "cache.json: there is no `BLOKC`; did you mean `BLOCK`?" in str(problem)


def test_search_ends_when_its_cost_budget_is_used_up(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = rest.http.post("/searches", json={"family_digest": "ab" * 32, "budget": {"cost": 1.0}})
    assert problem_of(wrong, 422)["field"] == "budget.cost_per_hour"
    search = rest.submit(budget={"cost": 1.0, "cost_per_hour": 3600.0})["id"]
    rest.report(rest.claim()[0])
    clock = rest.service.conductor.clock
    later = lambda: clock() + timedelta(seconds=2)  # noqa: E731
    monkeypatch.setattr(rest.service.conductor._dispatch._queue, "_clock", later)
    rest.play()
    view = rest.http.get(f"/searches/{search}").json()
    assert view["reason"] == "cost"
    assert view["cost"] >= 1.0
