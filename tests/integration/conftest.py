"""Fixtures of the integration tests: quiet logs, databases of each engine, and a service without HTTP."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from api.operations.logs import configure
from db.engine.location import Location
from tests import postgresql as postgresql_server
from tests.integration.stage import Stage

ENGINES = ("sqlite", "postgresql")

OF_ENGINES = {"test_db.py", "test_leases.py", "test_api_upkeep.py", "test_families_by_name.py"}
"""Files that `make test` runs on every engine, because they test the database. It runs the others only on SQLite."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests on PostgreSQL as `long`, unless they test the database itself."""
    for item in items:
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if params.get("locations") == "postgresql" and item.path.name not in OF_ENGINES:
            item.add_marker("long")


@pytest.fixture(autouse=True, scope="session")
def quiet_logs() -> None:
    """Silence the log. Tests of the log read it from a separate process."""
    configure("console", "error")


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgresql_server.Server]:
    """Yield the PostgreSQL server of all tests, which starts on first use."""
    with postgresql_server.server() as server:
        yield server


@pytest.fixture(params=ENGINES)
def locations(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Location]]:
    """Yield a factory of empty databases of one engine. Tests that use it run on every engine."""
    if request.param == "sqlite":
        numbers = count(1)
        yield lambda: Location.of(tmp_path / f"evo{next(numbers)}.db")
        return
    server: postgresql_server.Server = request.getfixturevalue("postgresql")
    lent: list[Location] = []

    def lend() -> Location:
        lent.append(server.lend())
        return lent[-1]

    yield lend
    for location in lent:
        server.take_back(location)


@pytest.fixture
def stage(locations: Callable[[], Location]) -> Iterator[Stage]:
    """Yield a service without HTTP, on every engine."""
    stage = Stage(locations())
    yield stage
    stage.database.close()
