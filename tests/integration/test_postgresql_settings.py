"""The service works with PostgreSQL servers whose defaults differ, and after idle connections have ended."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import text

from db.engine.location import Location
from db.engine.postgresql import LimitedConnection, PostgreSQL
from db.engine.session import Database
from db.engine.unavailable import StoreUnavailable
from evo.errors import EvoError
from tests.integration.local import local
from tests.integration.stage import DIGEST, QUICK
from tests.postgresql import Server, parameters
from tests.tiers import one_in


@pytest.fixture
def location(postgresql: Server) -> Iterator[Location]:
    made = postgresql.create()
    yield made
    postgresql.run(f"DROP DATABASE {name_of(made)} WITH (FORCE)")


def name_of(location: Location) -> str:
    assert location.server is not None
    assert location.server.database is not None
    return location.server.database


@pytest.mark.parametrize(
    "setting",
    one_in(
        7,
        [
            "client_encoding = 'LATIN1'",
            "client_encoding = 'SQL_ASCII'",
            "DateStyle = 'German, DMY'",
            "DateStyle = 'SQL, DMY'",
            "DateStyle = 'Postgres, MDY'",
            "default_transaction_isolation = 'serializable'",
            "default_transaction_deferrable = on",
            "bytea_output = 'escape'",
            "standard_conforming_strings = off",
            "extra_float_digits = -10",
            "idle_session_timeout = '1s'",
            "IntervalStyle = 'iso_8601'",
            "plan_cache_mode = force_generic_plan",
            "TimeZone = 'Asia/Kathmandu'",
        ],
    ),
)
def test_service_works_with_changed_postgresql_defaults(postgresql: Server, location: Location, setting: str) -> None:
    postgresql.run(f"ALTER DATABASE {name_of(location)} SET {setting}")
    notes = "größer Ω 🚀 \\x41"
    with local(location) as rest:
        rest.prepare()
        rest.submit(budget={"trials": 6}, notes=notes)
        rest.play()
        search = rest.http.get("searches/1").json()
        assert (search["state"], search["notes"]) == ("finished", notes)
        assert abs(datetime.fromisoformat(search["created_at"]) - datetime.now(UTC)) < timedelta(minutes=5)
        assert rest.http.get("champions/1").json()["time_us"] == search["best"]["time_us"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("default_transaction_read_only = on", "it accepts no writes"),
        ("search_path = missing", "no schema of the user's search_path exists"),
    ],
)
def test_error_explains_postgresql_defaults_that_prevent_writing(
    postgresql: Server, location: Location, setting: str, words: str
) -> None:
    postgresql.run(f"ALTER DATABASE {name_of(location)} SET {setting}")
    with pytest.raises(StoreUnavailable, match=words):
        Database.open(location)


@pytest.fixture(params=["SQL_ASCII", "LATIN1", "EUC_JP"])
def other_encoding(postgresql: Server, request: pytest.FixtureRequest) -> Iterator[Location]:
    """Yield an empty database that cannot store every character, as `initdb` creates it with the locale C."""
    made = postgresql.create()
    postgresql.run(f"DROP DATABASE {name_of(made)}")
    options = f"ENCODING '{request.param}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    postgresql.run(f"CREATE DATABASE {name_of(made)} {options}")
    yield made
    postgresql.run(f"DROP DATABASE {name_of(made)} WITH (FORCE)")


def test_new_database_with_an_encoding_other_than_utf8_is_refused(other_encoding: Location) -> None:
    remedy = f"needs UTF8.*`createdb --encoding UTF8 --template template0 {name_of(other_encoding)}`"
    for _ in range(2):  # the first attempt must leave no schema behind
        with pytest.raises(EvoError, match=remedy):
            Database.open(other_encoding)


def test_character_that_an_older_database_cannot_store_gives_503(
    other_encoding: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Databases of earlier versions may have such an encoding. They open, and the response names the remedy."""
    with monkeypatch.context() as earlier:
        earlier.setattr(PostgreSQL, "_refuse_encoding", lambda *_: None)
        Database.open(other_encoding).close()
    with local(other_encoding) as rest:
        rest.prepare()
        search = rest.submit()
        stored = rest.http.patch(f"searches/{search['id']}", json={"notes": "größer → 🚀"})
        found = rest.http.get("searches", params={"device": "größer → 🚀"})
        listed = rest.http.get("searches")
    assert {stored.status_code, found.status_code} <= {200, 503}
    assert "createdb --encoding UTF8" in stored.text or stored.json()["notes"] == "größer → 🚀"
    assert listed.status_code == 200


def test_requests_succeed_after_idle_connections_were_terminated(postgresql: Server, location: Location) -> None:
    """Idle connections are ended by `idle_session_timeout`, restarts, poolers and firewalls."""
    idle = f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name_of(location)}'"
    with local(location) as rest:
        rest.prepare()
        rest.submit()
        answers = []
        for turn in range(12):
            postgresql.run(f"{idle} AND state = 'idle'")
            path = "searches/1/resume" if turn % 4 else "searches/1/pause"
            answers.append((rest.http.get("searches/1") if turn % 2 else rest.http.post(path)).status_code)
        assert answers == [200] * 12


def test_jobs_are_offered_after_the_notification_connection_was_terminated(
    postgresql: Server, tmp_path: Path, location: Location
) -> None:
    name = name_of(location)
    with local(location) as rest:
        rest.prepare()
        postgresql.run(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")
        rest.submit(budget={"trials": 6})
        rest.play()
        assert rest.http.get("searches/1").json()["state"] == "finished"


PLACES = {
    "as it is": lambda folder: f"host={folder}",
    "a dead host first": lambda folder: f"host=127.0.0.1:1&host={folder}:5432&target_session_attrs=read-write",
    "hosts and ports in lists": lambda folder: f"host=127.0.0.1,{folder}&port=1,5432",
    "parameters of a connection": lambda folder: f"host={folder}&application_name=mine&keepalives_idle=7",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("setting", ["idle_session_timeout = '200ms'", "statement_timeout = '1s'"])
def test_service_process_stays_visible_to_other_processes_after_postgresql_timeouts(
    postgresql: Server, location: Location, place: str, setting: str
) -> None:
    """The connection that listens for notifications uses the URL's parameters and owns the lock of the process."""
    assert location.server is not None
    if "host" not in location.server.query:
        pytest.skip("the given server has no socket folder")
    postgresql.run(f"ALTER DATABASE {name_of(location)} SET {setting}")
    url = f"postgresql://{location.server.username}@/{name_of(location)}?"
    database = Database.open(Location.of(url + PLACES[place](location.server.query["host"])))
    database.listen()
    other = Database.open(location)
    backends = set()
    for _ in range(8):
        time.sleep(0.2)
        with other.read() as session:
            found = session.execute(text("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'"))
            backends.add(tuple(found.scalars()))
    database.close()
    other.close()
    (only,) = backends - {()}
    assert len(only) == 1, "the connection of the process must not be replaced"


@pytest.mark.parametrize("changes", [["DEALLOCATE ALL"], [f"PREPARE _pg3_{each} AS SELECT 1" for each in range(16)]])
def test_error_names_the_pooling_mode_if_a_pooler_changes_the_session(location: Location, changes: list[str]) -> None:
    """In transaction mode, each transaction may get a session with other prepared statements."""
    database = Database.open(location)
    statements = [text(f"SELECT {number} WHERE :x > 0") for number in range(8)]
    with pytest.raises(StoreUnavailable, match="pool_mode = session"):
        for turn in range(4):
            with database.write() as session:
                for statement in statements:
                    session.execute(statement, {"x": turn})
            with database.read() as session:
                pooled = cast("psycopg.Connection[Any]", session.connection().connection.dbapi_connection)
                session.commit()
                for change in changes:
                    pooled.pgconn.exec_(change.encode())  # a change that fails has no effect
    database.close()


def test_postgresql_connections_set_tcp_keepalives(location: Location) -> None:
    """Without keepalives, PostgreSQL would keep the locks of a machine that lost power for two hours."""
    database = Database.open(location)
    with database.read() as session:
        set_names = set(session.execute(text("SELECT name FROM pg_settings WHERE source = 'session'")).scalars())
    database.close()
    assert {"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"} <= set_names


@pytest.mark.parametrize("change", ["DROP TABLE tokens CASCADE", "ALTER TABLE searches RENAME COLUMN notes TO other"])
def test_missing_postgresql_table_or_column_gives_503(postgresql: Server, location: Location, change: str) -> None:
    with local(location) as rest:
        rest.prepare()
        with psycopg.connect(**parameters(location), autocommit=True) as connection:
            connection.execute(change)
        answers = [rest.http.get("tokens"), rest.http.get("searches")]
        failed = [each for each in answers if each.status_code != 200]
        assert failed
        assert {each.status_code for each in failed} == {503}
        assert all("its tables are not those of this version" in each.json()["detail"] for each in failed)


TRIGGER = """
    CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'secret'{state}; END $$;
    CREATE TRIGGER audit BEFORE INSERT ON {table} EXECUTE FUNCTION audit()
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (TRIGGER.format(table="tokens", state=""), "a trigger or function that was added"),
        (TRIGGER.format(table="events", state=""), "a trigger or function that was added"),
        (TRIGGER.format(table="tokens", state=" USING ERRCODE = 'P0004'"), "a trigger or function that was added"),
        ("ALTER SEQUENCE searches_id_seq MAXVALUE 7 RESTART 7; SELECT nextval('searches_id_seq')", "ALTER SEQUENCE"),
        ("SELECT setval('events_id_seq', 1, false)", "restart the service"),
    ],
)
def test_write_refused_by_a_database_trigger_or_function_gives_503_with_a_remedy(
    location: Location, change: str, words: str
) -> None:
    with local(location) as rest:
        rest.prepare()
        with psycopg.connect(**parameters(location), autocommit=True) as connection:
            connection.execute(change)
        listed = rest.http.get("searches")
        answers = [
            rest.http.post("searches", json={"family_digest": DIGEST, "policy": QUICK}),
            rest.http.post("tokens", json={"name": "a", "roles": ["viewer"]}),
        ]
    refused = [each for each in answers if each.status_code == 503]
    assert refused
    assert all(words in each.json()["detail"] for each in refused)
    assert {each.status_code for each in answers} <= {201, 503}
    assert listed.status_code == 200


def test_connection_to_an_unresponsive_server_is_closed_and_replaced(
    postgresql: Server, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hanging server or pooler keeps its connections open, and does not enforce the time limit of statements."""
    database = Database.open(location)
    for way in (database.read, database.write, database.look):
        with monkeypatch.context() as brief, pytest.raises(StoreUnavailable, match=r"did not answer within 0\.2 s"):
            brief.setattr("db.engine.postgresql.ANSWER_S", 0.2)
            with way() as session:
                session.execute(text("SELECT pg_sleep(30)"))
        with way() as session:
            assert session.execute(text("SELECT 1")).scalar() == 1
    database.close()


def test_error_for_an_unanswered_first_statement_names_the_server_and_poolers(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.postgresql.FIRST_ANSWER_S", 0.2)
    with LimitedConnection.connect(**parameters(location)) as connection:
        causes = r"0\.2 s; it may be overloaded or, if a pooler is used, the pool may be too small \(allow 13 "
        with pytest.raises(psycopg.OperationalError, match=f"the server did not answer within {causes}"):
            connection.execute("SELECT pg_sleep(30)")


def test_service_is_not_ready_while_the_server_does_not_answer(
    postgresql: Server, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.operations.readiness.READY_S", 0.5)
    headers = {"Authorization": "Bearer kev_unknown"}
    with local(location) as rest:
        assert rest.http.get("ready").status_code == 200
        with psycopg.connect(**parameters(location)) as other:
            other.execute("LOCK TABLE alembic_version, tokens")
            began_s = time.monotonic()
            answers = [rest.http.get("ready", headers=headers) for _ in range(4)]
            assert time.monotonic() - began_s < 20
        assert {each.status_code for each in answers} == {503}
        assert all("did not answer within 0.5 s" in each.json()["detail"] for each in answers)
        until_s = time.monotonic() + 20
        while rest.http.get("ready").status_code != 200 and time.monotonic() < until_s:
            time.sleep(0.1)
        assert rest.http.get("ready").status_code == 200
