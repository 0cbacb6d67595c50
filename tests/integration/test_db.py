"""The database has the declared schema, survives failures, and returns stored values unchanged."""

import hashlib
import os
import queue
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, select, text
from sqlalchemy.exc import IntegrityError, InvalidRequestError

from api.settings import Settings
from db.engine import schema
from db.engine.location import Location
from db.engine.ownership import Announcement, Ownership, running_service
from db.engine.schema import configuration, head, revisions
from db.engine.session import Database, StoreUnavailable, store_of
from db.engine.signals import announce
from db.models import Base, SearchRow, TrialRow, WorkerRow
from db.repositories.archive import Archive, Ended
from db.repositories.artefacts import Artefacts
from db.repositories.retention import remove_search
from evo.errors import Conflict, EvoError, InvalidInput, NotFound
from evo.search.search import Logged
from evo.trial import Proposal, Trial
from evo.trial.outcome import CompileFailed
from tests.integration.stage import Stage
from tests.postgresql import Server, parameters

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def database(locations: Callable[[], Location]) -> Iterator[Database]:
    """Yield an empty database, on every engine."""
    database = Database.open(locations())
    yield database
    database.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Database]:
    """Yield a database in an empty SQLite file."""
    database = Database.open(tmp_path / "evo.db")
    yield database
    database.close()


# The schema


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_migrations_create_the_schema_of_a_new_database(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "sqlite":
        places = [Location.of(tmp_path / name) for name in ("migrated.db", "created.db")]
    else:
        server: Server = request.getfixturevalue("postgresql")
        places = [server.create() for _ in range(2)]
    store = store_of(places[0])
    migrated = store.engine()
    with migrated.connect() as connection, store.rebuilding(connection), connection.begin():
        schema.migrate(connection)
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    with closing(Database.open(places[1])) as created:
        assert _schema(migrated) == _schema(created.engine)
    migrated.dispose()


def _text(described: dict[str, Any]) -> str:
    # the options contain the WHERE clause of an index
    options = {name: str(value) for name, value in described.get("dialect_options", {}).items()}
    return str(described | {"dialect_options": options})


def _schema(engine: Engine) -> dict[str, Any]:
    """Return columns, keys, constraints and indexes of all tables, as text."""
    inspector = inspect(engine)
    found: dict[str, Any] = {}
    for kind in ("columns", "foreign_keys", "unique_constraints", "check_constraints", "indexes"):
        tables = getattr(inspector, f"get_multi_{kind}")()
        found[kind] = {table: sorted(map(_text, described)) for (_, table), described in tables.items()}
    keys = {table: str(described) for (_, table), described in inspector.get_multi_pk_constraint().items()}
    numbered = {}
    if engine.dialect.name == "sqlite":
        with engine.connect() as connection:
            tables = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'table'")).all()
        numbered = {name: "AUTOINCREMENT" in sql for name, sql in tables}
    return found | {"keys": keys, "numbered": numbered}


def test_ids_of_deleted_searches_are_not_reused(stage: Stage) -> None:
    for _ in range(2):
        search = stage.submit()
        stage.conductor.orders.command(search, "cancel")
        with stage.database.write() as session:
            remove_search(session, search)
    assert stage.submit() == search + 1


def test_every_table_with_integer_ids_uses_autoincrement(file: Database) -> None:
    with file.engine.connect() as connection:
        tables = inspect(connection).get_table_names()
        made = {name: connection.execute(text(MADE_BY), {"name": name}).scalar_one() for name in tables}
    numbered = {name for name, sql in made.items() if re.search(r"\bid INTEGER", sql)}
    assert numbered >= {"searches", "trials", "jobs", "attempts", "champions", "ablations", "deliveries", "events"}
    assert {name for name in numbered if "AUTOINCREMENT" not in made[name]} == set()


MADE_BY = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name"


@pytest.mark.slow
def test_older_database_is_upgraded_with_its_rows_references_and_indexes(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    with played(path) as (search, trials):
        pass
    with closing(sqlite3.connect(path)) as connection:
        before = indexes(connection)
    migrate(path, "0013")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE attempts SET token = 'kept'")
        connection.execute(
            "INSERT INTO events (\"transaction\", kind, search_id, trial_id) VALUES (0, 'trial', 40, 50)"
        )
    database = Database.open(path)
    with database.read() as session:
        assert len(Archive(session).trials(search)) == trials
        assert session.execute(text("PRAGMA foreign_key_check")).all() == []
        assert session.execute(text("SELECT DISTINCT token FROM attempts")).scalars().all() == ["kept"]
        numbers = {row.name: row.seq for row in session.execute(text("SELECT name, seq FROM sqlite_sequence"))}
    assert (numbers["searches"], numbers["trials"]) == (40, 50), (
        "an id must not be reused, because events refer to earlier ids"
    )
    database.close()
    with closing(sqlite3.connect(path)) as connection:
        assert indexes(connection) == before


def indexes(connection: sqlite3.Connection) -> set[str]:
    """Return the statements that create the indexes of a file, with their conditions."""
    return {
        " ".join(sql.split())
        for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index'")
        if sql
    }


def migrate(path: Path, revision: str) -> None:
    """Downgrade a file to an older schema."""
    database = Database.open(path)
    config = configuration()
    store = store_of(database.location)
    with database.engine.connect() as connection, store.rebuilding(connection), connection.begin():
        config.attributes["connection"] = connection
        command.downgrade(config, revision)
    database.close()


def test_new_database_has_the_version_table_of_alembic(tmp_path: Path) -> None:
    script = ScriptDirectory.from_config(configuration())
    assert revisions() == sorted(each.revision for each in script.walk_revisions())
    assert head() == script.get_current_head()
    Database.open(tmp_path / "evo.db").close()
    created = create_engine(f"sqlite:///{tmp_path / 'evo.db'}")
    stamped = create_engine(f"sqlite:///{tmp_path / 'stamped.db'}")
    with stamped.connect() as connection, connection.begin():
        MigrationContext.configure(connection).stamp(script, "head")
    tables = []
    for engine in (created, stamped):
        with engine.connect() as connection:
            rows = connection.execute(text("SELECT * FROM alembic_version")).all()
            sql = connection.scalar(text("SELECT sql FROM sqlite_master WHERE name = 'alembic_version'"))
            tables.append((rows, " ".join(str(sql).split())))
        engine.dispose()
    assert tables[0] == tables[1]


@contextmanager
def played(path: Path) -> Iterator[tuple[int, int]]:
    """Write a file with one search. Yield the id of the search and its number of trials."""
    stage = Stage(Location.of(path))
    search = stage.submit(budget={"trials": 4})
    list(stage.play())
    try:
        yield search, len(stage.trials(search))
    finally:
        stage.database.close()


@pytest.mark.parametrize(
    "name", ["evo.db", "a b.db", "run?1.db", "run#1.db", "r%20s.db", "a&b=c.db", ":memory:", "ü'\".db", "file:x.db"]
)
def test_database_with_any_file_name_keeps_its_data_when_reopened(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a folder with spaces and 100%" / name
    first = Database.open(path)
    with first.write() as session:
        session.add(worker("w1"))
    first.close()
    second = Database.open(path)
    with second.read() as session:
        assert session.get(WorkerRow, "w1") is not None
    second.close()
    assert {each.name for each in path.parent.iterdir()} <= {name, f"{name}-wal", f"{name}-shm"}


def test_sqlite_connection_has_wal_foreign_keys_and_a_busy_timeout(file: Database) -> None:
    with file.engine.connect() as connection:
        pragmas = {name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in PRAGMAS}
    assert pragmas == PRAGMAS


PRAGMAS = {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "busy_timeout": 5000}


def test_concurrent_opens_of_a_new_postgresql_database_all_succeed(postgresql: Server) -> None:
    location = postgresql.create()
    opened: list[Database] = []
    threads = [threading.Thread(target=lambda: opened.append(Database.open(location))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    for database in opened:
        database.close()


def test_closing_the_database_closes_a_session_in_use_only_after_the_session_ends(
    locations: Callable[[], Location],
) -> None:
    database = Database.open(locations())
    with database.read() as session:
        session.execute(text("SELECT 1"))
        connection = session.connection().connection.dbapi_connection
        database.close()
        assert session.execute(text("SELECT 1")).scalar() == 1
    assert connection is not None
    with pytest.raises((psycopg.OperationalError, sqlite3.ProgrammingError), match="closed"):
        connection.cursor().execute("SELECT 1")


def test_notification_reaches_other_connections_after_the_commit(postgresql: Server) -> None:
    location = postgresql.lend()
    one, other = Database.open(location), Database.open(location)
    one.listen()
    other.listen()
    heard, mine = queue.Queue[str](), queue.Queue[str]()
    other.signals.subscribe(heard.put)
    one.signals.subscribe(mine.put)
    with pytest.raises(KeyError), one.write() as session:
        announce(session, "undone")
        raise KeyError
    deadline = time.monotonic() + 300
    while heard.empty() and time.monotonic() < deadline:  # the other process may not yet listen
        with one.write() as session:
            announce(session, "done")
        time.sleep(0.05)
    assert heard.get(timeout=60) == mine.get(timeout=60) == "done"
    one.close()
    other.close()
    postgresql.take_back(location)


# Failures


def test_database_url_is_shown_without_its_password() -> None:
    location = Location.of("postgresql://me:secret@db.example.org/evo?sslpassword=hidden")
    shown = f"{location} {location!r} {Settings(db=location)!r}"
    assert "secret" not in shown
    assert "hidden" not in shown
    assert "db.example.org/evo" in str(location)


@pytest.mark.parametrize("url", ["postgresql://me@host", "postgresql://host:port/evo"])
def test_invalid_database_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="postgresql://USER@HOST:5432/NAME"):
        Location.of(url)


def test_error_names_the_unreachable_database_server() -> None:
    with pytest.raises(StoreUnavailable, match=r"postgresql://me:\*\*\*@127.0.0.1:1/evo.*cannot be reached"):
        Database.open("postgresql://me:secret@127.0.0.1:1/evo")


def test_error_names_the_missing_postgresql_database(postgresql: Server) -> None:
    location = postgresql.lend()
    assert location.server is not None
    missing = location.server.set(database="missing").render_as_string(hide_password=False)
    with pytest.raises(StoreUnavailable, match=r"cannot be reached.*does not exist"):
        Database.open(missing)
    postgresql.take_back(location)


def test_postgresql_database_with_tables_of_another_program_is_refused(postgresql: Server) -> None:
    location = postgresql.create()
    with psycopg.connect(**parameters(location), autocommit=True) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(EvoError, match=r"not a kernel-evo database \(its tables: recipes\)"):
        Database.open(location)


def test_text_with_nul_is_refused_by_postgresql(postgresql: Server) -> None:
    location = postgresql.lend()
    database = Database.open(location)
    with pytest.raises(InvalidInput, match="NUL"), database.write() as session:
        session.add(worker("w\0"))
    database.close()
    postgresql.take_back(location)


def test_sqlite_database_with_tables_of_another_program_is_refused_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "100% foreign?.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(EvoError, match=r"not a kernel-evo database \(its tables: recipes\).*another --db"):
        Database.open(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    path.touch()
    Database.open(path).close()
    assert path.stat().st_size > 0


def test_database_with_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(EvoError, match="newer than this kernel-evo") as caught:
        Database.open(path)
    assert str(path) in str(caught.value)
    assert "--db" in str(caught.value)


def test_error_names_the_file_that_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at as one" * 20)
    with pytest.raises(StoreUnavailable, match="not a kernel-evo database") as caught:
        Database.open(path)
    assert str(path) in str(caught.value)


def test_locked_database_is_reported_as_held_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.sqlite.BUSY_TIMEOUT_S", 0.1)
    path = tmp_path / "evo.db"
    Database.open(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StoreUnavailable, match="another process has locked it"):
            Database.open(path)
    finally:
        other.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_writes_to_a_removed_or_replaced_database_file_fail(tmp_path: Path, replaced: bool) -> None:
    path = tmp_path / "evo.db"
    with closing(Database.open(path)) as database:
        with database.write() as session:
            session.execute(text("SELECT 1"))
        path.rename(tmp_path / "before.db")
        if replaced:
            path.write_bytes((tmp_path / "before.db").read_bytes())
        lost = pytest.raises(StoreUnavailable, match="removed or replaced while it was in use; end the service")
        with lost, database.write() as session:
            session.add(WorkerRow(id="lost"))
        path.unlink(missing_ok=True)
        (tmp_path / "before.db").rename(path)
        with database.write() as session:
            session.execute(text("SELECT 1"))


def test_writes_fail_after_the_write_ahead_log_is_removed_and_earlier_writes_survive(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    with closing(Database.open(path)) as database:
        with database.write() as session:
            session.execute(text("CREATE TABLE kept (x)"))
        path.with_name("evo.db-wal").unlink()
        for _ in range(2):
            lost = pytest.raises(StoreUnavailable, match="its write-ahead log was removed while it was in use; end")
            with lost, database.write() as session:
                session.execute(text("CREATE TABLE lost (x)"))
        with database.read() as session:
            assert {"kept"} == {"kept", "lost"} & set(inspect(session.connection()).get_table_names())
    with closing(Database.open(path)) as database, database.read() as session:
        assert {"kept"} == {"kept", "lost"} & set(inspect(session.connection()).get_table_names())


def test_database_with_damaged_table_names_is_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    Database.open(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA writable_schema = 1")
        file.execute("UPDATE sqlite_master SET name = CAST(x'd1d2' AS text), sql = 'CREATE TA' WHERE name = 'tokens'")
        file.commit()
    with pytest.raises(
        StoreUnavailable, match=r"is damaged; restore a backup.*names of its tables are not valid UTF-8"
    ):
        Database.open(path)


@pytest.mark.parametrize("change", ["DROP TABLE tokens", "ALTER TABLE workers RENAME COLUMN id TO other"])
def test_missing_table_or_column_is_reported_as_a_schema_of_a_different_version(file: Database, change: str) -> None:
    with file.write() as session:
        session.execute(text(change))
    table = Base.metadata.tables[change.split()[2]]
    with pytest.raises(StoreUnavailable, match="its tables are not those of this version"), file.read() as session:
        session.execute(select(table)).all()


def test_folder_given_as_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="--db"):
        Database.open(tmp_path)


def test_database_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="--db"):
        Database.open(tmp_path / "file" / "evo.db")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run as an ordinary user, because root ignores file permissions."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        if not os.access(Path(__file__), os.R_OK, effective_ids=True):
            pytest.skip("only root can read the folder of this clone")
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("folder_too", [True, False])
def test_error_names_the_read_only_database(folder_too: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, path = Path(name), Path(name) / "evo.db"
        Database.open(path).close()
        path.chmod(0o444)
        folder.chmod(0o555 if folder_too else 0o777)
        try:
            with as_nobody(), pytest.raises(StoreUnavailable, match="writable") as caught:
                Database.open(path)
            if folder_too:
                with as_nobody(), pytest.raises(StoreUnavailable, match="not writable"):
                    Ownership.take(path)
        finally:
            folder.chmod(0o755)
    assert str(path) in str(caught.value)


def test_write_to_a_read_only_connection_reports_read_only(file: Database) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"), file.write() as session:
        session.execute(text("PRAGMA query_only = ON"))
        session.add(worker("w1"))


# Ownership of a database by one service


def test_database_has_only_one_owning_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("db.engine.ownership.TIMEOUT_S", 0.05)
    path = tmp_path / "evo.db"
    assert running_service(path) is None
    owner = Ownership.take(path)
    with pytest.raises(Conflict, match=f"process {os.getpid()}"):
        Ownership.take(path)
    owner.announce("http://127.0.0.1:1234")
    assert running_service(path) == Announcement(url="http://127.0.0.1:1234", pid=os.getpid())
    with pytest.raises(Conflict, match=r"http://127\.0\.0\.1:1234"):
        Ownership.take(path)
    Ownership.take(tmp_path / "other.db").release()
    owner.release()
    assert running_service(path) is None
    Ownership.take(path).release()


def test_service_address_announced_by_a_killed_process_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "evo.db"
    code = (
        "import os, sys; from pathlib import Path; from db.engine.ownership import Ownership\n"
        "Ownership.take(Path(sys.argv[1])).announce('http://127.0.0.1:9'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=300)
    assert (tmp_path / "evo.db.service.json").exists()
    assert running_service(path) is None
    Ownership.take(path).release()
    assert not (tmp_path / "evo.db.service.json").exists()


# Stored values


def test_json_documents_are_stored_and_loaded_unchanged(stage: Stage) -> None:
    search_id = stage.submit(problem="N=100", budget={"trials": 1, "minutes": 2.5})
    list(stage.play())
    with stage.database.read() as session:
        row = Archive(session).search(search_id)
        trial = Archive(session).numbered(search_id, 0)
    again = Database.open(stage.location)
    with again.read() as session:
        other = Archive(session).search(search_id)
        for name in (
            "device",
            "objective",
            "budget",
            "policy",
            "space",
            "roofline",
            "problem",
            "warm_starts",
            "baselines",
        ):
            assert getattr(other, name) == getattr(row, name), name
        assert Archive(session).numbered(search_id, 0).outcome == trial.outcome
    again.close()


def test_times_are_stored_in_utc(database: Database) -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5)))
    with database.write() as session:
        session.add(worker("w1", seen_at=elsewhere))
    with database.read() as session:
        row = session.get(WorkerRow, "w1")
    assert row is not None
    assert (row.seen_at, row.seen_at.tzinfo) == (NOW, UTC)


def test_lazy_loading_of_related_rows_raises_an_error(stage: Stage) -> None:
    stage.submit()
    with stage.database.read() as session:
        row = session.scalars(select(SearchRow)).one()
        with pytest.raises(InvalidRequestError, match="lazy"):
            _ = row.family


def test_transaction_that_raises_is_rolled_back(database: Database) -> None:
    with pytest.raises(KeyError), database.write() as session:
        session.add(worker("w1"))
        session.flush()
        raise KeyError
    with database.read() as session:
        assert session.get(WorkerRow, "w1") is None


def test_concurrent_writers_in_threads_all_succeed(database: Database) -> None:
    def write(number: int) -> None:
        for index in range(20):
            with database.write() as session:
                session.add(worker(f"w{number}-{index}"))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert len(session.scalars(select(WorkerRow)).all()) == 160


@pytest.mark.parametrize("clash", [{"number": 0}, {"config_key": "1,1"}, {"finished_seq": 0}])
def test_duplicate_trial_number_config_or_order_violates_a_constraint(stage: Stage, clash: dict[str, Any]) -> None:
    search_id = stage.submit()
    with stage.database.write() as session:
        session.add(trial_row(search_id, number=0, config_key="1,1", finished_seq=0))
    with pytest.raises(IntegrityError), stage.database.write() as session:
        session.add(trial_row(search_id, **{"number": 1, "config_key": "1,2", "finished_seq": 1, **clash}))


def test_second_outcome_of_a_trial_is_refused(stage: Stage) -> None:
    search_id = stage.submit()
    with stage.database.write() as session:
        session.add(trial_row(search_id, number=0, config_key="1,1"))
    trial = Trial(number=0, proposal=PROPOSAL, outcome=CompileFailed(log="no"))
    ended = Ended(logged=Logged(trial=trial, seen=0, position=0), at=NOW)
    with stage.database.write() as session:
        Archive(session).end_trial(Archive(session).numbered(search_id, 0), ended)
    with pytest.raises(RuntimeError, match="already has an outcome"), stage.database.write() as session:
        Archive(session).end_trial(Archive(session).numbered(search_id, 0), ended)


# Artefacts


def test_failed_artefact_write_leaves_no_file_or_row(
    file: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, content = Artefacts(tmp_path / "artefacts"), b"kernel"
    digest = hashlib.sha256(content).hexdigest()
    with monkeypatch.context() as context:
        context.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        with pytest.raises(StoreUnavailable, match="No space left") as refused, file.write() as session:
            store.put(session, digest, content, media_type="text/plain", now=NOW)
    assert store.refusal is refused.value
    assert [path for path in (tmp_path / "artefacts").rglob("*") if path.is_file()] == []
    with file.read() as session, pytest.raises(NotFound):
        store.get(session, digest)
    with file.write() as session:
        store.put(session, digest, content, media_type="text/plain", now=NOW)
        store.put(session, digest, content, media_type="text/plain", now=NOW)
    assert store.refusal is None
    with file.read() as session:
        row, found = store.get(session, digest)
    assert (row.size, found) == (6, content)


def test_lost_artefact_file_is_stored_again(file: Database, tmp_path: Path) -> None:
    store, content = Artefacts(tmp_path / "artefacts"), b"kernel"
    digest = hashlib.sha256(content).hexdigest()
    for _ in range(2):
        with file.write() as session:
            store.put(session, digest, content, media_type="text/plain", now=NOW)
        with file.read() as session:
            assert store.get(session, digest)[1] == content
        (tmp_path / "artefacts" / digest[:2] / digest[2:]).unlink()
    with file.read() as session, pytest.raises(NotFound, match="removed"):
        store.get(session, digest)


def test_artefact_digest_with_path_separators_is_refused(file: Database, tmp_path: Path) -> None:
    store = Artefacts(tmp_path / "artefacts")
    with pytest.raises(InvalidInput, match="SHA-256"), file.write() as session:
        store.put(session, "../../evil", b"x", media_type="text/plain", now=NOW)
    with file.read() as session, pytest.raises(NotFound):
        store.get(session, "../evo.db")


PROPOSAL = Proposal(config={"BLOCK": 1, "UNROLL": 1}, origin="random")


def worker(worker_id: str, seen_at: datetime = NOW) -> WorkerRow:
    return WorkerRow(id=worker_id, name=worker_id, host="here", registered_at=NOW, seen_at=seen_at)


def trial_row(search_id: int, **values: Any) -> TrialRow:
    return TrialRow(search_id=search_id, proposal=PROPOSAL, told_before=0, asked_at=NOW, **values)
