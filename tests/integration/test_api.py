"""The REST API on a real socket keeps its guarantees to clients, and refuses every invalid request."""

import contextlib
import hashlib
import json
import math
import os
import re
import sqlite3
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from pydantic import TypeAdapter

from api import openapi
from api.app import create_app
from api.http.paging import to_cursor
from api.schemas import TrialState
from api.server import CannotListen, serve
from api.settings import Settings
from evo.errors import Conflict
from evo.messages.job import Lease
from evo.strategy import DEFAULT, STRATEGIES
from evo.trial.outcome import Abandoned, Outcome
from evo.trial.results import EvaluateReport, Report
from tests.integration.inside import BROWSER
from tests.integration.serving import announced, client_of, process_of, served, wait_until
from tests.integration.stage import DEVICE, DIGEST, QUICK, TOY, VALID, answer

LEASE = TypeAdapter(Lease)
REPORT: TypeAdapter[Report] = TypeAdapter(Report)
HUGE = 2**63
"""The smallest positive integer that the database cannot store."""


@dataclass
class Rest:
    """A client with helper methods for common sequences of requests."""

    http: httpx.Client

    def prepare(self) -> None:
        body: dict[str, Any] = {"name": "toy", "document": TOY, "location": None}
        assert self.http.put(f"/families/{DIGEST}", json=body).status_code == 200
        devices = [TypeAdapter(type(DEVICE)).dump_python(DEVICE, mode="json")]
        body = {"name": "w1", "host": "here", "devices": devices}
        assert self.http.put("/workers/w1", json=body).status_code == 200

    def submit(self, **terms: Any) -> dict[str, Any]:
        body = {"family_digest": DIGEST, "strategy": "random", "policy": QUICK, **terms}
        response = self.http.post("/searches", json=body)
        assert response.status_code == 201, response.text
        view: dict[str, Any] = response.json()
        return view

    def claim(self, count: int = 1, wait_s: float = 0.0) -> list[Lease]:
        body = {"worker_id": "w1", "device_uuid": DEVICE.uuid, "count": count, "wait_s": wait_s}
        response = self.http.post("/leases", json=body)
        assert response.status_code == 200, response.text
        return [LEASE.validate_python(lease) for lease in response.json()["leases"]]

    def report(self, lease: Lease, report: Report | None = None) -> httpx.Response:
        body = {"token": lease.token, "report": REPORT.dump_python(report or answer(lease), mode="json")}
        return self.http.post(f"/attempts/{lease.attempt_id}/result", json=body)

    def play(self) -> None:
        while leases := self.claim():
            assert self.report(leases[0]).status_code == 200


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    with served(tmp_path / "evo.db") as url, client_of(url) as client:
        yield Rest(client)


@pytest.mark.slow
def test_search_runs_from_submission_to_champion_over_http(rest: Rest) -> None:
    rest.prepare()
    view = rest.submit(budget={"trials": 5}, problem="N=128")
    assert (view["state"], view["problem"], view["space"]["valid_count"]) == ("running", {"N": 128}, VALID)
    rest.play()
    view = rest.http.get(f"/searches/{view['id']}").json()
    assert (view["state"], view["counts"], view["reason"]) == ("finished", {"measured": 5}, "trials")
    assert view["overhead_ms"] is not None
    ranked = rest.http.get(f"/searches/{view['id']}/trials", params={"sort": "rank"}).json()["items"]
    times = [trial["time_us"] for trial in ranked]
    assert times == sorted(times)
    trial = rest.http.get(f"/trials/{ranked[0]['id']}").json()
    assert trial["outcome"]["kind"] == "measured"
    assert [attempt["job"] for attempt in trial["attempts"]] == ["evaluate", "confirm"]
    (champion,) = rest.http.get("/champions", params={"family": "toy", "problem": "N=128"}).json()["items"]
    assert champion["config"] == ranked[0]["config"]
    assert rest.http.get(f"/champions/{champion['id']}").json()["verdict"]["promote"]
    assert rest.http.get("/champions", params={"problem": "N=12"}).json()["items"] == []


@pytest.mark.slow
def test_champion_is_rolled_back_to_the_previous_champion(rest: Rest) -> None:
    rest.prepare()
    rest.submit(budget={"trials": 1})
    rest.play()
    rest.submit(seed=1)
    rest.play()
    newest, oldest = rest.http.get("/champions", params={"history": True}).json()["items"]
    response = rest.http.post(f"/champions/{newest['id']}/rollback", json={"reason": "slower elsewhere"})
    assert response.json()["retired_reason"] == "rolled back: slower elsewhere"
    (current,) = rest.http.get("/champions").json()["items"]
    assert current["id"] == oldest["id"]
    again = rest.http.post(f"/champions/{newest['id']}/rollback", json={"reason": "once more"})
    assert again.status_code == 409
    rest.http.post(f"/champions/{oldest['id']}/rollback", json={"reason": "this one, too"})
    assert rest.http.get("/champions").json()["items"] == []


def test_report_of_a_trial_is_found_by_the_digest_of_its_binary(rest: Rest) -> None:
    rest.prepare()
    search = rest.submit()["id"]
    rest.report(rest.claim()[0])
    lease = rest.claim()[0]
    digest = "b" * 64
    assert rest.http.get(f"/searches/{search}/binaries/{digest}").status_code == 404
    report = answer(lease)
    rest.report(lease, type(report)(**{**vars(report), "binary_digest": digest}))
    found = rest.http.get(f"/searches/{search}/binaries/{digest}").json()
    assert REPORT.validate_python(found) == type(report)(**{**vars(report), "binary_digest": digest})


def test_long_poll_for_jobs_returns_when_a_search_is_submitted(rest: Rest) -> None:
    rest.prepare()
    got: list[Lease] = []
    waiting = threading.Thread(target=lambda: got.extend(rest.claim(wait_s=30)))
    began = time.monotonic()
    waiting.start()
    time.sleep(0.2)
    rest.submit()
    waiting.join()
    assert len(got) == 1
    assert time.monotonic() - began < 25


def test_long_poll_for_jobs_ends_at_its_timeout(rest: Rest) -> None:
    rest.prepare()
    began = time.monotonic()
    assert rest.claim(wait_s=0.3) == []
    assert 0.3 <= time.monotonic() - began < 25


def test_job_of_an_expired_lease_goes_to_a_waiting_worker(tmp_path: Path) -> None:
    with served(tmp_path / "evo.db", lease_s=5.0) as url, client_of(url) as client:
        rest = Rest(client)
        rest.prepare()
        search = rest.submit()["id"]
        lost = rest.claim()[0]
        rest.report(rest.claim()[0])  # reports a trial; the lost job times the baselines
        client.post(f"/searches/{search}/stop")
        (again,) = rest.claim(wait_s=30)
        assert (again.job, again.attempt_id != lost.attempt_id) == (lost.job, True)
        assert rest.report(lost).status_code == 409
        assert rest.report(again).status_code == 200


def test_result_of_a_released_lease_is_refused_and_a_repeated_result_counts_once(rest: Rest) -> None:
    rest.prepare()
    rest.submit()
    lease = rest.claim()[0]
    body = {"token": lease.token, "reason": "shutting down"}
    assert rest.http.post(f"/attempts/{lease.attempt_id}/release", json=body).status_code == 204
    stale = rest.report(lease)
    assert (stale.status_code, stale.headers["content-type"]) == (409, "application/problem+json")
    lease = rest.claim()[0]
    assert rest.report(lease).json() == {"accepted": True, "repeated": False}
    assert rest.report(lease).json() == {"accepted": True, "repeated": True}


def test_every_result_of_a_batch_gets_a_separate_status(rest: Rest) -> None:
    rest.prepare()
    search = rest.submit()
    rest.report(rest.claim()[0])
    first, second, third = rest.claim(3)
    assert rest.report(first).status_code == 200
    results = [
        {"attempt_id": attempt_id, "token": token, "report": REPORT.dump_python(answer(of), mode="json")}
        for attempt_id, token, of in (
            (first.attempt_id, first.token, first),
            (second.attempt_id, "0" * 32, second),
            (99, second.token, second),
            (second.attempt_id, second.token, second),
        )
    ]
    wrong = {"report": REPORT.dump_python(EvaluateReport(outcome=Abandoned(worker_losses=1)), mode="json")}
    results.append({"attempt_id": third.attempt_id, "token": third.token, **wrong})
    answers = rest.http.post("/results", json={"results": results}).json()["answers"]
    assert [each["status"] for each in answers] == ["repeated", "stale", "unknown", "accepted", "refused"]
    assert [bool(each["detail"]) for each in answers] == [False, True, True, False, True]
    assert rest.http.get(f"/searches/{search['id']}").json()["finished"] == 2
    assert rest.http.post("/results", json={"results": []}).status_code == 422


def test_heartbeat_response_lists_the_attempts_to_cancel(rest: Rest) -> None:
    rest.prepare()
    rest.submit()
    lease = rest.claim()[0]
    beat = rest.http.post("/workers/w1/heartbeat", json={"attempts": [lease.attempt_id, 99]}).json()
    assert beat == {"cancel": [99], "drain": False, "quarantined": []}
    (worker,) = rest.http.get("/workers").json()["items"]
    assert (worker["id"], worker["devices"][0]["model"]) == ("w1", "Toy CPU")


def test_drained_worker_gets_no_jobs_until_it_is_resumed(rest: Rest) -> None:
    rest.prepare()
    rest.submit()
    assert rest.http.post("/workers/w1/drain").json()["drain"] is True
    assert rest.claim() == []
    assert rest.http.post("/workers/w1/heartbeat", json={}).json()["drain"] is True
    assert rest.http.post("/workers/w1/resume").json()["drain"] is False
    assert len(rest.claim()) == 1
    assert rest.http.post("/workers/nobody/drain").status_code == 404


@pytest.mark.slow
def test_api_and_pages_state_why_no_worker_serves_a_search(rest: Rest) -> None:
    rest.prepare()
    search = rest.submit()
    pages, page = str(rest.http.base_url).removesuffix("/api/v1/"), f"/searches/{search['id']}"

    def reasons() -> set[str | None]:
        (listed,) = rest.http.get("/searches").json()["items"]
        return {rest.http.get(page).json()["unserved"], listed["unserved"]}

    assert reasons() == {None}
    rest.http.post("/workers/w1/drain")
    assert reasons() == {"Worker w1 is drained: `kernel-evo workers resume w1` lets it work again."}
    for address in ("/", page):
        html = rest.http.get(pages + address, headers=BROWSER).text
        assert "Worker w1 is drained: <code>kernel-evo workers resume w1</code> lets it work again." in html
    rest.http.post(f"{page}/pause")
    assert reasons() == {None}, "a paused search has no jobs for a worker"
    rest.http.post(f"{page}/resume")
    rest.http.post("/workers/w1/resume")
    slot = {"device_uuid": DEVICE.uuid, "activity": "exhausted", "detail": "the disk is full"}
    assert rest.http.post("/workers/w1/heartbeat", json={"slots": [slot]}).status_code == 200
    assert reasons() == {"Toy CPU of worker w1 is not measuring now: the disk is full."}
    assert "not measuring now: the disk is full." in rest.http.get(pages + page, headers=BROWSER).text


def test_quarantined_device_gets_no_jobs_until_a_user_clears_it(rest: Rest) -> None:
    rest.prepare()
    rest.submit()
    slot = {"device_uuid": DEVICE.uuid, "activity": "testing", "detail": "a known kernel", "fault": "it fell off"}
    beat = {"slots": [slot], "note": "the disk is full"}
    assert rest.http.post("/workers/w1/heartbeat", json=beat).json()["quarantined"] == [DEVICE.uuid]
    (worker,) = rest.http.get("/workers").json()["items"]
    (shown,) = worker["slots"]
    assert (worker["note"], shown["activity"], shown["detail"]) == ("the disk is full", "testing", "a known kernel")
    assert (shown["quarantine_reason"], shown["quarantined_at"] is None) == ("it fell off", False)
    assert rest.claim() == []
    body = {"family_digest": DIGEST, "device": "cpu"}
    assert rest.http.post("/searches", json=body).status_code == 409
    rest.prepare()  # a restart of the worker does not clear the device's quarantine
    assert rest.claim() == []
    cleared = rest.http.post(f"/workers/w1/devices/{DEVICE.uuid}/clear").json()
    assert cleared["slots"][0]["quarantined_at"] is None
    assert len(rest.claim()) == 1
    path = f"/workers/w1/devices/{DEVICE.uuid}/quarantine"
    assert rest.http.post(path, json={"reason": "noisy neighbour"}).json()["slots"][0]["quarantine_reason"]
    assert rest.claim() == []
    assert rest.http.post("/workers/w1/devices/other/clear").status_code == 404


def test_jobs_of_a_departed_worker_return_to_the_queue(rest: Rest) -> None:
    rest.prepare()
    search = rest.submit()
    lease = rest.claim()[0]
    assert rest.http.delete("/workers/w1").status_code == 204
    assert rest.http.delete("/workers/w1").status_code == 204
    assert rest.report(lease).status_code == 409
    late = rest.http.post("/leases", json={"worker_id": "w1", "device_uuid": DEVICE.uuid})
    assert (late.status_code, "register it again" in late.json()["detail"]) == (404, True)
    (worker,) = rest.http.get("/workers").json()["items"]
    assert worker["left_at"] is not None
    refused = rest.http.post("/searches", json={"family_digest": DIGEST})
    assert refused.status_code == 409
    assert "connected now: none" in refused.json()["detail"]
    mistyped = rest.http.post("/searches", json={"family_digest": DIGEST, "problem": "SIZES=3"})
    assert (mistyped.status_code, mistyped.json()["field"]) == (422, "problem.SIZES"), (
        "an invalid problem must be refused even if no worker can serve the search"
    )
    rest.prepare()
    again = rest.claim()[0]
    assert (again.terms.search_id, again.job) == (search["id"], lease.job)
    assert rest.http.get("/workers").json()["items"][0]["left_at"] is None
    assert rest.http.delete("/workers/nobody").status_code == 404


@pytest.mark.slow
def test_paginated_lists_contain_every_item_once(rest: Rest) -> None:
    rest.prepare()
    searches = [rest.submit(budget={"trials": 7})["id"] for _ in range(5)]
    rest.play()
    for path, expected in (
        ("/searches", list(reversed(searches))),
        (f"/searches/{searches[0]}/trials", list(range(7))),
        (f"/searches/{searches[0]}/trials?sort=rank", None),
    ):
        seen, cursor = [], None
        while True:
            page = rest.http.get(path, params={"limit": 2, **({"cursor": cursor} if cursor else {})}).json()
            seen += [item["id"] if path == "/searches" else item["number"] for item in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
        assert seen == expected or sorted(seen) == list(range(7))
        assert len(seen) == len(set(seen))
    running = rest.http.get("/searches", params={"state": "running"}).json()
    assert running == {"items": [], "next": None}


def test_artefacts_sent_with_a_result_are_stored(rest: Rest) -> None:
    rest.prepare()
    rest.submit(budget={"trials": 1})
    rest.report(rest.claim()[0])
    (lease,) = rest.claim()
    content, wrong = b"int main;", "0" * 64
    digest = hashlib.sha256(content).hexdigest()
    report = REPORT.dump_python(answer(lease), mode="json") | {"artefacts": {"source": digest}}
    body: dict[str, Any] = {"results": [{"attempt_id": lease.attempt_id, "token": lease.token, "report": report}]}
    enclosed = b64encode(content).decode()
    refused = rest.http.post("/results", json=body | {"contents": {digest: enclosed, wrong: enclosed}})
    assert (refused.status_code, rest.http.get(f"/artefacts/{digest}").status_code) == (422, 404)
    (told,) = rest.http.post("/results", json=body | {"contents": {digest: enclosed}}).json()["answers"]
    assert told["status"] == "accepted"
    assert rest.http.get(f"/artefacts/{digest}").content == content


@pytest.mark.parametrize("how", ["never stored", "file lost", "file cut", "row lost"])
def test_response_to_a_result_lists_the_artefacts_missing_from_the_service(
    rest: Rest, tmp_path: Path, how: str
) -> None:
    """A worker may have uploaded an artefact that was later deleted as old data, or lost when a backup was restored."""
    content = b"source"
    digest = hashlib.sha256(content).hexdigest()
    rest.prepare()
    rest.submit(budget={"trials": 1})
    rest.report(rest.claim()[0])
    (lease,) = rest.claim()
    report = REPORT.dump_python(answer(lease), mode="json") | {"artefacts": {"source": digest}}
    result = {"attempt_id": lease.attempt_id, "token": lease.token, "report": report}
    if how != "never stored":
        assert rest.http.put(f"/artefacts/{digest}", content=content).is_success
    if how == "file lost":
        (tmp_path / "artefacts" / digest[:2] / digest[2:]).unlink()
    if how == "file cut":
        os.truncate(tmp_path / "artefacts" / digest[:2] / digest[2:], 3)
    if how == "row lost":
        with contextlib.closing(sqlite3.connect(tmp_path / "evo.db")) as database:
            database.execute("DELETE FROM artefacts")
            database.commit()
    (first,) = rest.http.post("/results", json={"results": [result]}).json()["answers"]
    assert (first["status"], first["lacking"]) == ("accepted", [digest])
    assert rest.http.put(f"/artefacts/{digest}", content=content).is_success
    (again,) = rest.http.post("/results", json={"results": [result]}).json()["answers"]
    assert (again["status"], again["lacking"]) == ("repeated", [])


def test_delivered_report_resets_the_age_of_its_artefacts(rest: Rest, tmp_path: Path) -> None:
    content = b"source"
    digest = hashlib.sha256(content).hexdigest()
    rest.prepare()
    rest.submit(budget={"trials": 1})
    rest.report(rest.claim()[0])
    (lease,) = rest.claim()
    assert rest.http.put(f"/artefacts/{digest}", content=content).is_success
    with contextlib.closing(sqlite3.connect(tmp_path / "evo.db")) as database:
        database.execute("UPDATE artefacts SET created_at = '2020-01-01 00:00:00.000000'")
        database.commit()
        report = REPORT.dump_python(answer(lease), mode="json") | {"artefacts": {"source": digest}}
        result = {"attempt_id": lease.attempt_id, "token": lease.token, "report": report}
        assert rest.http.post("/results", json={"results": [result]}).is_success
        assert database.execute("SELECT count(*) FROM artefacts WHERE created_at < '2021'").fetchone() == (0,)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, 100),
    "emptied": lambda path: os.truncate(path, 0),
    "extended": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "flipped": lambda path: path.write_bytes(b"K" + path.read_bytes()[1:]),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_damaged_artefact_is_reported_and_repaired_by_an_upload(rest: Rest, tmp_path: Path, how: str) -> None:
    content = b"kernel" * 100
    digest = hashlib.sha256(content).hexdigest()
    address, path = f"/artefacts/{digest}", tmp_path / "artefacts" / digest[:2] / digest[2:]
    assert rest.http.put(address, content=content).is_success
    DAMAGES[how](path)
    download = rest.http.get(str(rest.http.base_url).replace("/api/v1/", f"{address}/source"))
    for refused in (rest.http.get(address), download):
        assert refused.status_code == 404
        assert digest in refused.text
        assert ("removed" if how == "removed" else "damaged") in refused.text
        assert "upload the same content again" in refused.text
        assert str(tmp_path) not in refused.text
    assert rest.http.put(address, content=content).is_success
    assert rest.http.get(address).content == content


def test_uploaded_artefacts_are_returned_unchanged(rest: Rest, tmp_path: Path) -> None:
    content = b"\x00kernel\xff" * 1000
    digest = hashlib.sha256(content).hexdigest()
    for _ in range(2):
        stored = rest.http.put(f"/artefacts/{digest}", content=content)
        assert stored.json() == {"digest": digest, "size": len(content), "media_type": "application/octet-stream"}
    assert rest.http.get(f"/artefacts/{digest}").content == content
    assert (tmp_path / "artefacts" / digest[:2] / digest[2:]).read_bytes() == content
    wrong = rest.http.put(f"/artefacts/{'0' * 64}", content=content)
    assert (wrong.status_code, wrong.json()["field"]) == (422, "digest")
    assert rest.http.get(f"/artefacts/{'0' * 64}").status_code == 404
    assert rest.http.get("/artefacts/..%2f..%2fevo.db").status_code in {404, 422}


def test_health_and_readiness_are_reported(rest: Rest) -> None:
    assert rest.http.get("/health").json()["status"] == "ok"
    assert rest.http.get("/ready").json()["status"] == "ready"


@pytest.mark.parametrize(
    ("request_", "status", "field"),
    [
        (("GET", "/nothing", None), 404, None),
        (("DELETE", "/searches", None), 405, None),
        (("GET", "/searches/7", None), 404, None),
        (("GET", "/searches/seven", None), 422, "search_id"),
        (("GET", "/searches/1/trials?outcome=bogus", None), 422, "outcome"),
        (("GET", f"/searches/{HUGE}", None), 422, "search_id"),
        (("GET", f"/trials/{HUGE}", None), 422, "trial_id"),
        (("POST", f"/champions/{HUGE}/rollback", {"reason": "x"}), 422, "champion_id"),
        (("GET", f"/searches?cursor={to_cursor(HUGE)}", None), 422, "cursor"),
        (("GET", f"/champions?cursor={to_cursor(HUGE)}", None), 422, "cursor"),
        (("POST", "/searches", {"family_digest": DIGEST, "budget": {"trials": HUGE}}), 422, "budget.trials"),
        (("POST", "/searches", {"family_digest": DIGEST, "budget": {"stagnation": HUGE}}), 422, "budget.stagnation"),
        (("GET", "/searches?limit=0", None), 422, "limit"),
        (("GET", "/searches?cursor=zzz", None), 422, "cursor"),
        (("GET", "/searches?stat=running", None), 422, "stat"),
        (("GET", "/searches?state=walking", None), 422, "state"),
        (("POST", "/searches/7/pause", None), 404, None),
        (("POST", "/searches", {}), 422, "family_digest"),
        (("POST", "/searches", {"family_digest": DIGEST, "budgt": {}}), 422, "budgt"),
        (("POST", "/searches", {"family_digest": DIGEST, "budget": {"trials": -1}}), 422, "budget.trials"),
        (("POST", "/searches", {"family_digest": DIGEST, "budget": {"trials": True}}), 422, "budget.trials"),
        (("POST", "/searches", {"family_digest": DIGEST, "budget": {"minutes": False}}), 422, "budget.minutes"),
        (("POST", "/searches", {"family_digest": DIGEST, "objective": {"threads": True}}), 422, "objective.threads"),
        (("POST", "/searches", {"family_digest": DIGEST, "seed": True}), 422, "seed"),
        (("POST", "/searches", {"family_digest": DIGEST, "budget": {"trails": 1}}), 422, "budget.trails"),
        (("POST", "/searches", {"family_digest": DIGEST, "objective": {"cache": "warm"}}), 422, "objective.cache"),
        (("POST", "/searches", {"family_digest": DIGEST, "seed": -1}), 422, "seed"),
        (("POST", "/searches", {"family_digest": DIGEST, "problem": "M=1"}), 422, "problem.M"),
        (("POST", "/searches", {"family_digest": "e" * 64}), 404, None),
        (("PUT", f"/families/{DIGEST}", {"name": "toy", "document": {"name": "toy"}}), 422, None),
        (("PUT", f"/families/{DIGEST}", {"name": "boy", "document": TOY}), 422, "name"),
        (("PUT", "/families/short", {"name": "toy", "document": TOY}), 422, "digest"),
        (("GET", "/families/nobody", None), 404, None),
        (("POST", "/leases", {"worker_id": "w9", "device_uuid": "cpu-0"}), 404, None),
        (("POST", "/leases", {"worker_id": "w1", "device_uuid": "cpu-9"}), 404, None),
        (("POST", "/leases", {"worker_id": "w1", "device_uuid": "cpu-0", "wait_s": 31}), 422, "wait_s"),
        (("POST", "/attempts/1/result", {"token": "x", "report": {"kind": "other"}}), 422, "report"),
        (("GET", "/trials/1", None), 404, None),
        (("GET", "/champions/1", None), 404, None),
        (("GET", "/champions?problem=N", None), 422, "problem"),
        (("POST", "/champions/1/rollback", {"reason": ""}), 422, "reason"),
    ],
)
def test_every_error_response_is_a_problem_document(
    rest: Rest, request_: tuple[str, str, object], status: int, field: str | None
) -> None:
    rest.prepare()
    method, path, body = request_
    response = rest.http.request(method, path, json=body)
    problem = response.json()
    assert (response.status_code, problem["status"]) == (status, status), problem
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["detail"]
    assert problem["title"]
    if field is not None:
        assert problem["field"] == field, problem


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:8765"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "[::1"}, 421),
        ({"Host": "LOCALHOST:1"}, 404),
        ({"Host": "[::1]:8765"}, 404),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 404),
        ({"Host": "localhost:1", "Origin": "http://localhost:2"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_requests_with_foreign_host_or_origin_headers_are_refused(
    rest: Rest, headers: dict[str, str], status: int
) -> None:
    response = rest.http.post("/searches/7/pause", headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert "x-request-id" in response.headers
    read = rest.http.get("/health", headers=headers)
    assert read.status_code == (421 if status == 421 else 200)


def test_service_on_a_network_address_accepts_any_host_but_no_foreign_origin(tmp_path: Path) -> None:
    with served(tmp_path / "evo.db", host="0.0.0.0") as url, client_of(url) as client:
        assert client.get("/health", headers={"Host": "box:8765"}).status_code == 200
        away = {"Host": "box:8765", "Origin": "http://evil.example"}
        assert client.post("/searches/7/pause", headers=away).status_code == 403


def test_error_names_the_invalid_field_of_a_report(rest: Rest) -> None:
    rest.prepare()
    report = {"kind": "evaluate", "outcome": {"kind": "measured", "timing": {"samples_us": ["fast"]}}}
    problem = rest.http.post("/attempts/1/result", json={"token": "x", "report": report}).json()
    assert problem["field"].endswith("timing.samples_us.0"), problem
    assert len(problem["errors"]) == 1


def test_internal_error_response_contains_no_exception_text(rest: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.rest.searches.listed_views", lambda *_: 1 / 0)
    response = rest.http.get("/searches")
    assert response.status_code == 500
    assert "ZeroDivisionError" not in response.text
    assert response.json()["detail"].startswith("this is a bug in kernel-evo")


def test_every_trial_state_is_pending_or_a_kind_of_outcome() -> None:
    assert set(get_args(TrialState)) == {"pending", *(kind.kind for kind in get_args(Outcome))}


@pytest.mark.parametrize("minutes", ["Infinity", "NaN", "1e999"])
def test_budget_of_infinite_or_nan_minutes_is_refused(rest: Rest, minutes: str) -> None:
    body = f'{{"family_digest": "{DIGEST}", "budget": {{"minutes": {minutes}}}}}'
    response = rest.http.post("/searches", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, response.json().get("field")) == (422, "budget.minutes"), response.text


def test_error_for_a_webhook_given_as_text_shows_the_required_object(rest: Rest) -> None:
    response = rest.http.post("/searches", json={"family_digest": DIGEST, "webhook": "https://example.org"})
    assert (response.status_code, response.json()["field"]) == (422, "webhook")
    assert response.json()["detail"] == 'webhook: must be an object; write {"url": "https://example.org"}'


@pytest.mark.parametrize("place", [[1.0, HUGE, 1], [math.inf, 1, 1], [1.0, 1, HUGE]])
def test_out_of_range_ranking_cursor_is_refused(rest: Rest, place: list[float]) -> None:
    rest.prepare()
    search = rest.submit()["id"]
    response = rest.http.get(f"/searches/{search}/trials", params={"sort": "rank", "cursor": to_cursor(place)})
    assert (response.status_code, response.json().get("field")) == (422, "cursor"), response.text


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
def test_request_body_that_is_not_json_is_refused(rest: Rest, content: bytes) -> None:
    response = rest.http.post("/searches", content=content, headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["field"]) == (422, "body")
    assert response.headers["content-type"] == "application/problem+json"


def test_streamed_body_over_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.http.middleware.body.MOST_BYTES", 1000)
    with served(tmp_path / "evo.db") as url, client_of(url) as client:
        for method, path in (("PUT", f"/artefacts/{DIGEST}"), ("POST", "/searches")):
            response = client.request(
                method, path, content=iter([b" " * 1001]), headers={"content-type": "application/json"}
            )
            assert (response.status_code, response.headers["content-type"]) == (413, "application/problem+json")
            assert "send less" in response.json()["detail"]


@pytest.mark.slow
def test_printed_openapi_document_equals_the_served_document(rest: Rest) -> None:
    printed, served = json.loads(openapi.openapi_text()), rest.http.get("/openapi.json").json()
    assert (printed["paths"], printed["components"]) == (served["paths"], served["components"])
    strategies = served["components"]["schemas"]["SearchRequest"]["properties"]["strategy"]
    assert (strategies["default"], strategies["examples"]) == (DEFAULT, list(STRATEGIES))


def test_every_route_is_in_the_rest_reference() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text(encoding="utf-8")
    paths = create_app(Settings()).openapi()["paths"]
    for path, operations in paths.items():
        for method in operations:
            assert f"`{method.upper()} {path.removeprefix('/api/v1')}`" in text, f"{method} {path} is not documented"


@pytest.mark.slow
def test_second_service_is_refused_and_the_error_states_the_address_of_the_first(tmp_path: Path) -> None:
    database = tmp_path / "evo.db"
    with process_of(database) as first:
        url = announced(database)
        assert httpx.get(f"{url}/api/v1/ready", timeout=60).status_code == 200
        assert json.loads((tmp_path / "evo.db.service.json").read_text()) == {"url": url, "pid": first.pid}
        with pytest.raises(Conflict, match=re.escape(url)):
            serve(Settings(db=database, log_level="error"))
        with pytest.raises(CannotListen, match="--port"):
            serve(Settings(db=tmp_path / "other.db", port=int(url.rsplit(":", 1)[1]), log_level="error"))
    assert not (tmp_path / "evo.db.service.json").exists()


@pytest.mark.long
def test_restarted_service_accepts_the_result_of_a_lease_from_before_the_kill(tmp_path: Path) -> None:
    database = tmp_path / "evo.db"
    with process_of(database) as first, client_of(announced(database)) as client:
        rest = Rest(client)
        rest.prepare()
        search = rest.submit(budget={"trials": 3})["id"]
        lease = rest.claim()[0]
        first.kill()
    with process_of(database), client_of(announced(database)) as client:
        rest = Rest(client)
        assert rest.report(lease).json() == {"accepted": True, "repeated": False}
        rest.play()
        assert rest.http.get(f"/searches/{search}").json()["state"] == "finished"


SENT = "http11.send_request_body.complete"
"""Step at which httpx has sent a request."""


@pytest.mark.slow
def test_shutdown_answers_waiting_workers_and_completes_the_request_in_progress(tmp_path: Path) -> None:
    database = tmp_path / "evo.db"
    content = b"a" * 70_000
    digest = hashlib.sha256(content).hexdigest()
    with process_of(database) as process, client_of(announced(database)) as client:
        rest = Rest(client)
        rest.prepare()
        sent = threading.Event()

        def claim() -> None:
            body = {"worker_id": "w1", "device_uuid": DEVICE.uuid, "count": 1, "wait_s": 30}
            trace = {"trace": lambda step, _: step == SENT and sent.set()}
            assert client.post("/leases", json=body, extensions=trace).status_code == 200

        waiting = threading.Thread(target=claim)
        waiting.start()
        assert sent.wait(60)
        for _ in range(3):
            client.get("/ready")  # once the service answers later requests, it has read the earlier one
        answered_s: list[float] = []

        def slowly() -> Iterator[bytes]:
            yield content[:1000]
            began = time.monotonic()
            process.terminate()
            waiting.join(60)
            answered_s.append(time.monotonic() - began)
            wait_until(lambda: not _listens(client.base_url))
            yield content[1000:]

        stored = client.put(f"/artefacts/{digest}", content=slowly())
        assert (stored.status_code, stored.json()["size"]) == (200, len(content))
        process.wait(60)
        assert answered_s[0] < 25
    assert (tmp_path / "artefacts" / digest[:2] / digest[2:]).read_bytes() == content


def _listens(url: httpx.URL) -> bool:
    try:
        httpx.get(url, timeout=60)
    except httpx.ConnectError:
        return False
    return True
