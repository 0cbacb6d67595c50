"""PostgreSQL engine. Any number of service processes can share one database."""

import contextlib
import os
import select
import selectors
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, cast

import psycopg
import structlog
from psycopg.pq import TransactionStatus
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DataError, DBAPIError, InvalidatePoolError, SQLAlchemyError, TimeoutError
from sqlalchemy.orm import Session

from db.engine.location import Location
from db.engine.signals import Topic
from db.engine.sqlite import refuse_foreign
from db.engine.unavailable import OTHER_TABLES, StoreUnavailable
from db.models import Base
from evo.errors import EvoError, InvalidInput
from evo.text.shell import joined

log = structlog.get_logger("database")

CHANNEL = "kernel_evo"
UPGRADE_LOCK = 0x6B65726E656C
"""Key of the advisory lock that a process acquires before it upgrades the schema."""
PRESENCE_LOCK = UPGRADE_LOCK + 1
"""Key of the advisory lock that every service process holds in shared mode while it runs."""
NUMBERING_LOCK = UPGRADE_LOCK + 2
"""Key of the advisory lock that a transaction acquires before it numbers its events, and holds until it ends."""
CONNECTIONS = 12
"""Maximum number of pooled connections per process. The listener has one more. By default, a server allows 100."""
STALLED_S = 20
"""Seconds after which the server ends an idle transaction, so that a paused process does not block other processes."""
LOCK_WAIT_S = 10
"""Maximum seconds for which a statement waits for a row that another process has locked."""
STATEMENT_S = 60
"""Seconds after which the server ends a statement."""
ANSWER_S = STATEMENT_S + 10.0
"""Seconds without a response after which a connection is closed. If a server or pooler hangs, `statement_timeout` has
no effect, and keepalives do not help because the machine still acknowledges packets.
"""
CONNECT_S = 5
FIRST_ANSWER_S = 15.0
"""Seconds without a response to the first statement after which a connection is closed. An overloaded server, or a
pooler without a free connection, accepts a client and delays its first statement.
"""
RECONNECT_S = 1.0


class PostgreSQL:
    """Implements `db.engine.session.Store`. A read transaction sees the state at its first statement."""

    reads: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}  # noqa: RUF012 — the protocol's plain attribute
    looks: dict[str, Any] = {"isolation_level": "AUTOCOMMIT"}  # noqa: RUF012
    writes: dict[str, Any] = {}  # noqa: RUF012
    one_writer = False

    def __init__(self, location: Location) -> None:
        self.location = location
        self._url = cast(URL, location.server)
        self._me = uuid.uuid4().hex[:12]

    def engine(self) -> Engine:
        engine = create_engine(
            self._url,
            connect_args=_connect_arguments(self._url),
            pool_size=CONNECTIONS,
            max_overflow=0,
            pool_timeout=LOCK_WAIT_S,
            pool_use_lifo=True,  # the connections used last have already prepared the statements
            query_cache_size=500,
        )
        event.listen(engine, "do_connect", _connected)
        event.listen(engine, "connect", _configure, insert=True)  # must run before SQLAlchemy reads the server version
        event.listen(engine, "checkout", _refuse_ended)
        return engine

    def before_upgrade(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        tables = inspect(connection).get_table_names()
        refuse_foreign(str(self.location), tables)
        if not tables:
            self._refuse_encoding(connection)

    def _refuse_encoding(self, connection: Connection) -> None:
        """Refuse a database that cannot store every character, e.g. because `initdb` ran with the locale C."""
        encoding = connection.execute(text("SELECT current_setting('server_encoding')")).scalar_one()
        if encoding != "UTF8":
            again = joined(["createdb", "--encoding", "UTF8", "--template", "template0", self._url.database or ""])
            raise EvoError(
                f"database {self.location}: its encoding is {encoding}, but kernel-evo needs UTF8. Nothing was written "
                f"to it. Drop the database, then create it: `{again}`"
            )

    def after_upgrade(self, connection: Connection) -> None:
        """Advance sequences that are behind the ids of their tables.

        A sequence falls behind on a logical replica, or if only the rows of its table were restored.
        """
        numbered = [each.name for each in Base.metadata.sorted_tables if each.autoincrement_column is not None]
        connection.execute(text(" UNION ALL ".join(_ADVANCE.format(table=name) for name in numbered)))

    def refuse_lost(self) -> None:
        """Do nothing, because the server itself checks its files."""

    def closing(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def rebuilding(self, connection: Connection) -> contextlib.AbstractContextManager[None]:
        """Do nothing, because the server alters tables in place."""
        return contextlib.nullcontext()

    def number_events(self, session: Session) -> None:
        session.execute(_NUMBERING)

    def explained(self, error: SQLAlchemyError) -> EvoError | None:
        if isinstance(error, TimeoutError):
            busy = f"all {CONNECTIONS} connections of this process are busy; try again"
            return StoreUnavailable(f"database {self.location}: {busy}", public=busy)
        if isinstance(error, DataError) and "NUL" in str(error.orig):
            return InvalidInput("body", "a string contains a NUL character, which the database cannot store; remove it")
        if not isinstance(error, DBAPIError):
            return None
        remedy = _remedy(error)
        reason = str(error.orig).strip().partition("\n")[0]
        if remedy is None:
            return None
        return StoreUnavailable(f"database {self.location}: {remedy} ({reason})", public=remedy)

    def may_have_committed(self, error: BaseException) -> bool:
        """Return True if the connection was lost: the server may have committed before its reply was lost."""
        return isinstance(error, DBAPIError) and error.connection_invalidated

    def publish(self, session: Session, topics: Sequence[Topic]) -> None:
        for topic in topics:
            session.execute(_NOTIFY, {"channel": CHANNEL, "payload": f"{self._me} {topic}"})

    def alone(self, session: Session) -> bool:
        return bool(session.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": PRESENCE_LOCK}).scalar())

    def others(self, session: Session) -> bool:
        present = session.execute(_PRESENT, {"high": PRESENCE_LOCK >> 32, "low": PRESENCE_LOCK & 0xFFFFFFFF}).scalar()
        return int(present or 0) > 1  # the listener of this process is also counted

    def listen(self, subscriber: Callable[[Topic], None]) -> Callable[[], None]:
        """Call `subscriber` for each notification, in a separate thread. Return a function that ends the subscription.

        Notifications are lost while the connection is down, so code that waits for changes must also poll.
        """
        return Listener(self._url, self._me, subscriber).stop


class Listener:
    """Thread that receives notifications over a separate connection. A pipe wakes the thread to stop it."""

    def __init__(self, url: URL, me: str, subscriber: Callable[[Topic], None]) -> None:
        self._parameters = {**url.get_dialect()().create_connect_args(url)[1], **_connect_arguments(url)}
        self._me = me
        self._subscriber = subscriber
        self._stopping = threading.Event()
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._run, name="listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop receiving notifications and wait for the thread to end."""
        self._stopping.set()
        os.write(self._wake, b".")
        self._thread.join(2 * CONNECT_S)
        os.close(self._woken)
        os.close(self._wake)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                with LimitedConnection.connect(**self._parameters, autocommit=True) as connection:
                    _configure(connection)
                    connection.execute("SELECT pg_advisory_lock_shared(%s)", [PRESENCE_LOCK])
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._listen(connection)
            except psycopg.Error as error:
                log.warning("connection to the database lost", reason=str(error).strip().partition("\n")[0])
                self._stopping.wait(RECONNECT_S)
            except Exception:  # an unreadable message must not end the thread
                log.exception("the listener for database events failed and restarts")
                self._stopping.wait(RECONNECT_S)

    def _listen(self, connection: "psycopg.Connection[Any]") -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._stopping.is_set():
                selector.select()
                connection.pgconn.consume_input()
                while (notice := connection.pgconn.notifies()) is not None:
                    sender, _, topic = notice.extra.decode().partition(" ")
                    if sender != self._me:
                        self._subscriber(topic)


class LimitedConnection(psycopg.Connection[Any]):
    """Connection that waits at most `ANSWER_S` seconds for a response from the server.

    Attributes:
        configured: True once the first statement was answered. Until then, the wait is at most `FIRST_ANSWER_S`.
    """

    configured = False

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for a response from the server. If none arrives in time, close the connection.

        Raises:
            psycopg.OperationalError: no response arrived in time, or the connection was lost.
        """
        limit_s = ANSWER_S if self.configured else min(FIRST_ANSWER_S, ANSWER_S)
        try:
            return super().wait(gen, interval, timeout=limit_s if timeout is None else timeout)
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.pgconn.finish()
            raise psycopg.OperationalError(
                f"the server did not answer within {limit_s:g} s{'' if self.configured else _OVERLOADED}"
            ) from error


def _connected(_dialect: object, _record: object, arguments: Sequence[Any], parameters: dict[str, Any]) -> Any:
    return LimitedConnection.connect(*arguments, **parameters)


_CONNECT: dict[str, Any] = {
    "application_name": "kernel-evo",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "prepare_threshold": 2,
}
_SETTINGS = {
    "idle_session_timeout": "0",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": f"{STALLED_S}s",
    "lock_timeout": f"{LOCK_WAIT_S}s",
    "statement_timeout": f"{STATEMENT_S}s",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "extra_float_digits": "1",
    "default_transaction_isolation": "read committed",
}
"""Settings of every connection, because roles and databases can have other defaults. With the keepalives, the server
detects within half a minute that the machine of a service has failed, and releases the locks of that service."""

_OVERLOADED = (
    "; it may be overloaded or, if a pooler is used, the pool may be too small (allow "
    f"{CONNECTIONS + 1} connections for each service process)"
)
_PRESENT = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND classid::bigint = :high AND objid::bigint = :low AND objsubid = 1"
)
_NUMBERING = text(f"SELECT pg_advisory_xact_lock({NUMBERING_LOCK})")
_NOTIFY = text("SELECT pg_notify(:channel, :payload)")


_ADVANCE = (
    "(SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table} HAVING max(id) > "
    "coalesce(pg_sequence_last_value(pg_get_serial_sequence('{table}', 'id')::regclass), 0))"
)


def _connect_arguments(url: URL) -> dict[str, Any]:
    """Return the default connection arguments that the URL does not set. `prepare_threshold` is always included."""
    return {name: value for name, value in _CONNECT.items() if name not in url.query or name == "prepare_threshold"}


def _configure(connection: "LimitedConnection", _: Any = None) -> None:
    """Apply the settings with an SQL statement, because poolers such as PgBouncer refuse them as startup parameters.

    Settings that the server does not support are left out, e.g. `transaction_timeout` before PostgreSQL 17.
    """
    wanted = ", ".join(f"('{name}', '{value}')" for name, value in _SETTINGS.items())
    known = "current_setting(name, true) IS NOT NULL"
    connection.execute(f"SELECT set_config(name, value, false) FROM (VALUES {wanted}) AS s (name, value) WHERE {known}")
    connection.commit()  # a later rollback would otherwise undo the settings
    connection.configured = True


def _refuse_ended(connection: "psycopg.Connection[Any]", *_: Any) -> None:
    """Replace the pooled connections if the server or a pooler closed this connection while it was idle.

    An idle connection becomes readable only when the other side closes it, so no query is needed to detect this.
    """
    look = select.poll()
    look.register(connection.fileno(), select.POLLIN)
    if look.poll(0):
        raise InvalidatePoolError


POOLED = "a pooler changed the session between two transactions; use session mode (PgBouncer: pool_mode = session)"

_REMEDIES = {
    "08": "the connection was refused or lost; check the server, the URL and the pooler (use session mode)",
    "22P05": "its encoding cannot store a character of this text; move it into a database with the encoding UTF8 "
    "(`pg_dump`, `createdb --encoding UTF8 --template template0`, `pg_restore`)",
    "2200H": "a sequence has reached its maximum; raise the maximum (`ALTER SEQUENCE … MAXVALUE …`)",
    "26": POOLED,
    "42P05": POOLED,
    "53": "the server has run out of connections, memory or disk space; free some and try again",
    "55": "another process has locked the same rows for longer than usual; try again",
    "57": "the server is shutting down, or ended this connection; try again",
    "40": "two processes changed the same rows at the same time; try again",
    "25P03": "this process paused for too long within a transaction, which was rolled back; try again",
    "25006": "it accepts no writes, because it is a standby or default_transaction_read_only is on (some hosts set "
    "that when the disk is full); use the primary server, or turn the parameter off",
    "P0": "a trigger or function that was added to this database refused the statement; correct or remove it",
    "3F": "no schema of the user's search_path exists; create one, or change the search_path",
    "42P01": OTHER_TABLES,
    "42703": OTHER_TABLES,
    "42501": "this database user lacks a permission; make the user the owner of the database",
}
"""Remedies by the first characters of the SQLSTATE error code."""


_BEHIND = (
    "a sequence is behind the ids of its table, for example because rows were copied into the running database; "
    "restart the "
    "service, which advances the sequences"
)


def _remedy(error: DBAPIError) -> str | None:
    code = getattr(error.orig, "sqlstate", None)
    if isinstance(error.orig, psycopg.errors.UniqueViolation):  # callers handle conflicts of keys other than the id
        return _BEHIND if (error.orig.diag.message_detail or "").startswith("Key (id)=") else None
    if code is None:
        lost = error.connection_invalidated or isinstance(error.orig, psycopg.OperationalError)
        return (
            "it cannot be reached; check the server, and the address, user and database name in the URL"
            if lost
            else None
        )
    return next((text for sign, text in _REMEDIES.items() if code.startswith(sign)), None)
