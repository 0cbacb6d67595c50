"""Without the database, every route answers 503, unknown callers see no details, and no data is lost."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import httpx
import pytest
from sqlalchemy.exc import OperationalError

from api.http.errors import Explained
from db.engine.postgresql import PostgreSQL
from db.engine.session import Database, StoreUnavailable
from db.engine.sqlite import SQLite
from db.models import TokenRow
from evo.messages.access import Role
from tests.integration.local import Local, local

PLACE = "db.example.org"


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        yield rest


@contextmanager
def away(monkeypatch: pytest.MonkeyPatch, *ways: str, reason: str = "it is unavailable") -> Iterator[None]:
    """Make reads or writes of the database fail with an error that contains its location, as SQLAlchemy does."""

    @contextmanager
    def refused(_: Database) -> Iterator[Any]:
        raise StoreUnavailable(f"database postgresql://me@{PLACE}/evo: {reason}", public=reason)
        yield

    with monkeypatch.context() as patch:
        for way in ways:
            patch.setattr(Database, way, refused)
        yield


def bearer(rest: Local, role: Role, by: dict[str, str] | None = None) -> dict[str, str]:
    """Create a token and return headers with it. Any local caller may create the first token."""
    issued = rest.http.post("/tokens", json={"name": "me", "roles": [role]}, headers=by)
    assert issued.status_code == 201, issued.text
    return {"Authorization": f"Bearer {issued.json()['secret']}"}


REQUESTS: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "route": lambda http: http.get("/searches"),
    "key": lambda http: http.post("/searches/1/pause", headers={"Idempotency-Key": "once"}),
    "ready": lambda http: http.get("/ready"),
    "sign in": lambda http: http.post(str(http.base_url).replace("/api/v1/", "/sign-in"), data={"token": "kev_x"}),
    "page": lambda http: http.get(str(http.base_url).replace("/api/v1/", "/workers"), headers={"Accept": "text/html"}),
    "unknown token": lambda http: http.get("/searches", headers={"Authorization": f"Bearer kev_{'0' * 12}_{'a' * 43}"}),
}


STRANGERS = ("ready", "sign in", "unknown token")
"""Requests that read the database even if the caller is unknown."""


@pytest.mark.parametrize(
    ("asked", "closed"), [*((each, False) for each in REQUESTS), *((each, True) for each in STRANGERS)]
)
def test_response_503_shows_the_database_location_only_without_access_control(
    rest: Local, monkeypatch: pytest.MonkeyPatch, asked: str, closed: bool
) -> None:
    rest.submit()
    if closed:
        bearer(rest, "admin")
    assert rest.http.get("/ready").status_code == 200
    rest.service.gate.forget()
    with away(monkeypatch, "read", "write", "look"):
        response = REQUESTS[asked](rest.http)
    assert response.status_code == 503, response.text
    assert "it is unavailable" in response.text
    assert (PLACE in response.text) is not closed


def test_only_administrators_see_the_location_of_an_unavailable_database(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.submit()
    root = bearer(rest, "admin")
    submitter = bearer(rest, "submitter", by=root)
    with away(monkeypatch, "write"):
        for who, named in ((root, True), (submitter, False)):
            response = rest.http.post("/searches/1/pause", headers=who)
            assert (response.status_code, PLACE in response.text) == (503, named)


def test_caller_is_admitted_while_writes_fail_and_token_use_is_stored_later(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = bearer(rest, "admin")
    with away(monkeypatch, "write"):
        assert rest.http.get("/searches", headers=root).status_code == 200
        (used,) = [each["last_used_at"] for each in rest.http.get("/tokens", headers=root).json()["items"]]
        assert used is not None
        with pytest.raises(StoreUnavailable):
            rest.service.gate.note_used()
    rest.service.gate.note_used()
    with rest.service.database.read() as session:
        assert [row.last_used_at is not None for row in session.query(TokenRow)] == [True]


def test_idempotency_key_is_reusable_after_a_request_without_effect(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.submit()
    key = {"Idempotency-Key": "only once"}
    with monkeypatch.context() as patch:
        patch.setattr(rest.service.conductor.orders, "command", _unavailable)
        assert rest.http.post("/searches/1/pause", headers=key).status_code == 503
    assert rest.http.post("/searches/1/pause", headers=key).status_code == 200
    assert rest.http.post("/searches/1/pause", headers=key).headers["idempotency-replayed"] == "true"


def test_idempotency_key_of_a_request_with_unknown_effect_is_refused(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.submit()
    key = {"Idempotency-Key": "only once"}
    command = rest.service.conductor.orders.command

    def half(*arguments: Any) -> None:
        command(*arguments)
        _unavailable()

    with monkeypatch.context() as patch:
        patch.setattr(rest.service.conductor.orders, "command", half)
        assert rest.http.post("/searches/1/pause", headers=key).status_code == 503
    assert rest.http.post("/searches/1/resume", headers=key).status_code == 422
    assert rest.http.post("/searches/1/pause", headers=key).status_code == 409


def test_response_is_sent_even_if_it_cannot_be_stored_for_replay(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.submit()
    monkeypatch.setattr("db.repositories.answers.StoredResponses.end", _unavailable)
    assert rest.http.post("/searches/1/pause", headers={"Idempotency-Key": "k"}).json()["state"] == "paused"


def _unavailable(*_: object, **__: object) -> None:
    raise StoreUnavailable("database: it is unavailable")


def test_only_a_lost_postgresql_connection_leaves_the_outcome_of_a_commit_unknown() -> None:
    lost = OperationalError("COMMIT", {}, Exception("gone"), connection_invalidated=True)
    refused = OperationalError("COMMIT", {}, Exception("no"))
    assert PostgreSQL.may_have_committed(None, lost)  # type: ignore[arg-type]
    assert not PostgreSQL.may_have_committed(None, refused)  # type: ignore[arg-type]
    assert not SQLite.may_have_committed(None, lost)  # type: ignore[arg-type]


def test_process_metrics_are_available_without_the_database(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(rest.http.base_url).replace("/api/v1/", "/metrics")
    monkeypatch.setattr("api.operations.metrics.KEPT_S", 0.0)
    assert "kernel_evo_database_up 1.0" in httpx.get(address, timeout=60).text
    with away(monkeypatch, "read"):
        found = httpx.get(address, timeout=60)
    assert found.status_code == 200
    assert "kernel_evo_database_up 0.0" in found.text
    assert "kernel_evo_request_seconds_count" in found.text


@pytest.mark.parametrize("closed", [False, True], ids=["without tokens", "with tokens"])
def test_health_and_metrics_stay_available_after_a_long_database_outage(
    rest: Local, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    """If the health check failed, a supervisor would restart the process, although only the database is unavailable."""
    headers = bearer(rest, "viewer", by=bearer(rest, "admin")) if closed else {}
    address = str(rest.http.base_url).replace("/api/v1/", "/metrics")
    assert httpx.get(address, headers=headers, timeout=60).status_code == 200
    monkeypatch.setattr("api.auth.authentication.KEPT_S", 0.0)
    monkeypatch.setattr("api.operations.metrics.KEPT_S", 0.0)
    with away(monkeypatch, "read", "write", "look"):
        assert rest.http.get("/health").status_code == 200
        found = httpx.get(address, headers=headers, timeout=60)
        stranger = {"Authorization": f"Bearer kev_{'0' * 12}_{'a' * 43}"}
        unknown = httpx.get(address, headers=stranger, timeout=60)
        assert rest.http.get("/searches", headers=headers).status_code == 503
    assert (found.status_code, "kernel_evo_database_up 0.0" in found.text) == (200, True)
    assert unknown.status_code == (503 if closed else 200)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_download_with_unreadable_first_rows_gives_503(rest: Local, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    def unreadable(*_: object, **__: object) -> Iterator[Any]:
        raise StoreUnavailable(f"database postgresql://me@{PLACE}/evo: it is unavailable", public="it is unavailable")
        yield

    search = rest.submit()["id"]
    viewer = bearer(rest, "viewer", by=bearer(rest, "admin"))
    monkeypatch.setattr("api.rest.trial_files._every", unreadable)
    response = rest.http.get(f"/searches/{search}/trials.{form}", headers=viewer)
    assert response.status_code == 503, response.text
    assert "it is unavailable" in response.text and PLACE not in response.text


def test_event_stream_ends_cleanly_when_the_database_becomes_unavailable(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Mock()
    monkeypatch.setattr("api.events.feed.log", log)
    monkeypatch.setattr("api.rest.events.log", log)  # a stream that opens while the feed starts reads the log directly
    with rest.http.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        with away(monkeypatch, "read"):
            list(lines)  # reading to the end raises an error if the stream is truncated
    log.warning.assert_called()
    log.exception.assert_not_called()


def test_unfinished_request_gets_503_when_the_service_stops() -> None:
    async def cancelled(*_: object) -> None:
        raise asyncio.CancelledError

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Explained(cancelled)({"type": "http"}, cast(Any, None), send))
    assert sent[0]["status"] == 503
    assert b"send the request again" in sent[1]["body"]


def test_locked_database_gives_503_with_and_without_idempotency_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.sqlite.BUSY_TIMEOUT_S", 0.2)
    with local(tmp_path / "evo.db") as rest:
        rest.prepare()
        rest.submit()
        holder = sqlite3.connect(str(rest.service.database.location), isolation_level=None, check_same_thread=False)
        holder.execute("BEGIN IMMEDIATE")
        try:
            answers = [rest.http.post("/searches/1/pause", headers=each) for each in ({}, {"Idempotency-Key": "k"})]
        finally:
            holder.execute("ROLLBACK")
            holder.close()
        assert [each.status_code for each in answers] == [503, 503]
        assert rest.http.post("/searches/1/pause", headers={"Idempotency-Key": "k"}).status_code == 200


def test_health_states_why_results_cannot_be_stored(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    database = rest.service.database

    def refusal() -> str | None:
        return cast("str | None", rest.http.get("/health").json()["refusal"])

    def full(_: Any) -> None:
        raise OperationalError("COMMIT", {}, sqlite3.OperationalError("database or disk is full"))

    assert refusal() is None
    with monkeypatch.context() as patch:
        patch.setattr(SQLite, "publish", lambda _self, session, _topics: full(session))
        with pytest.raises(StoreUnavailable), database.write():
            pass
    assert str(database.location) in str(refusal())
    assert "the disk is full; free some space" in str(refusal())
    with monkeypatch.context() as patch:
        patch.setattr("api.rest.service.may_see_places", lambda _: False)
        assert refusal() == "the service cannot use its database at present: the disk is full"
    with database.write():
        pass
    assert refusal() is None
    rest.service.artefacts.refusal = StoreUnavailable("a folder is full")
    assert refusal() == "a folder is full"
