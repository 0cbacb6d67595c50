"""Requests while the database cannot be read or written: 503 everywhere, nothing named to strangers, nothing lost."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.exc import OperationalError

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
def away(monkeypatch: pytest.MonkeyPatch, *ways: str, reason: str = "it is away") -> Iterator[None]:
    """Let the database refuse to be read or written, naming its place as real errors do."""

    @contextmanager
    def refused(_: Database) -> Iterator[Any]:
        raise StoreUnavailable(f"database postgresql://me@{PLACE}/evo: {reason}", public=reason)
        yield

    with monkeypatch.context() as patch:
        for way in ways:
            patch.setattr(Database, way, refused)
        yield


def bearer(rest: Local, role: Role, by: dict[str, str] | None = None) -> dict[str, str]:
    """Headers with a new token; the first one anybody may make."""
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
"""Requests whose answer needs the database also where strangers are refused without it."""


@pytest.mark.parametrize(
    ("asked", "closed"), [*((each, False) for each in REQUESTS), *((each, True) for each in STRANGERS)]
)
def test_a_database_that_is_away_is_503_and_named_to_administrators_alone(
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
    assert "it is away" in response.text
    assert (PLACE in response.text) is not closed


def test_administrators_alone_are_told_which_database_is_away(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.submit()
    root = bearer(rest, "admin")
    submitter = bearer(rest, "submitter", by=root)
    with away(monkeypatch, "write"):
        for who, named in ((root, True), (submitter, False)):
            response = rest.http.post("/searches/1/pause", headers=who)
            assert (response.status_code, PLACE in response.text) == (503, named)


def test_a_caller_is_let_in_while_nothing_can_be_written(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: that a token was used is written down later."""
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


def test_a_key_whose_request_did_nothing_carries_it_out_later(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.submit()
    key = {"Idempotency-Key": "only once"}
    with monkeypatch.context() as patch:
        patch.setattr(rest.service.conductor.orders, "command", _unavailable)
        assert rest.http.post("/searches/1/pause", headers=key).status_code == 503
    assert rest.http.post("/searches/1/pause", headers=key).status_code == 200
    assert rest.http.post("/searches/1/pause", headers=key).headers["idempotency-replayed"] == "true"


def test_a_key_whose_request_may_have_done_something_is_not_carried_out_again(
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


def test_an_answer_that_cannot_be_kept_is_sent_all_the_same(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    rest.submit()
    monkeypatch.setattr("db.repositories.answers.Answers.end", _unavailable)
    assert rest.http.post("/searches/1/pause", headers={"Idempotency-Key": "k"}).json()["state"] == "paused"


def _unavailable(*_: object, **__: object) -> None:
    raise StoreUnavailable("database: it is away")


def test_a_lost_answer_to_a_commit_counts_as_a_commit_and_a_refused_one_does_not() -> None:
    lost = OperationalError("COMMIT", {}, Exception("gone"), connection_invalidated=True)
    refused = OperationalError("COMMIT", {}, Exception("no"))
    assert PostgreSQL.may_have_committed(None, lost)  # type: ignore[arg-type]
    assert not PostgreSQL.may_have_committed(None, refused)  # type: ignore[arg-type]
    assert not SQLite.may_have_committed(None, lost)  # type: ignore[arg-type]


def test_figures_of_the_process_are_there_while_the_database_is_away(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(rest.http.base_url).replace("/api/v1/", "/metrics")
    monkeypatch.setattr("api.metrics.KEPT_S", 0.0)
    assert "kernel_evo_database_up 1.0" in httpx.get(address).text
    with away(monkeypatch, "read"):
        found = httpx.get(address)
    assert found.status_code == 200
    assert "kernel_evo_database_up 0.0" in found.text
    assert "kernel_evo_request_seconds_count" in found.text


def test_a_stream_ends_in_order_when_the_database_goes_away(rest: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    with rest.http.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        with away(monkeypatch, "read"):
            list(lines)  # to its proper end: a stream cut off in the middle raises


def test_a_database_that_another_program_locks_is_503_with_a_key_as_without(
    rest: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
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
