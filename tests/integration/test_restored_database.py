"""The service handles PostgreSQL databases restored under it, and sequences behind their tables."""

from collections.abc import Iterator
from itertools import islice

import psycopg
import pytest

from db.engine.location import Location
from db.models import Base
from tests.integration.stage import VALID, Stage
from tests.postgresql import Server, parameters

TABLES = [table.name for table in Base.metadata.sorted_tables]


@pytest.fixture
def location(postgresql: Server) -> Iterator[Location]:
    lent = postgresql.lend()
    yield lent
    postgresql.take_back(lent)


def run(location: Location, *statements: str) -> None:
    with psycopg.connect(**parameters(location), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def back_up(location: Location) -> None:
    run(location, *(f"DROP TABLE IF EXISTS kept_{name}" for name in TABLES))
    run(location, *(f"CREATE TABLE kept_{name} AS TABLE {name}" for name in TABLES))


def restore(location: Location) -> None:
    numbered = [table.name for table in Base.metadata.sorted_tables if table.autoincrement_column is not None]
    run(
        location,
        "SET session_replication_role = replica",
        *(f"DELETE FROM {name}" for name in reversed(TABLES)),
        *(f"INSERT INTO {name} TABLE kept_{name}" for name in TABLES),
        *(f"SELECT setval('{each}_id_seq', 1 + coalesce((SELECT max(id) FROM {each}), 0))" for each in numbered),
        *(f"DROP TABLE kept_{name}" for name in TABLES),
    )


@pytest.mark.slow
@pytest.mark.parametrize("other_trials", [0, 1, 3, 8])
def test_running_search_continues_after_an_older_backup_is_restored(location: Location, other_trials: int) -> None:
    """A second process may continue the restored search first."""
    stage = Stage(location)
    search = stage.submit(budget={"trials": VALID})
    list(islice(stage.play(), 4))
    back_up(location)
    list(islice(stage.play(), 4))
    restore(location)
    if other_trials:
        other = Stage(location, now=stage.now)
        list(islice(other.play(), other_trials))
        other.database.close()
    list(stage.play())
    assert stage.view(search).state == "finished", stage.view(search).reason
    assert [trial.number for trial in stage.trials(search)] == list(range(VALID))
    stage.restart()
    assert stage.view(search).state == "finished"
    stage.database.close()


def test_database_sequences_behind_their_tables_are_advanced_at_startup(location: Location) -> None:
    """Logical replication, and restores of rows alone, do not copy the state of sequences."""
    stage = Stage(location)
    search = stage.submit(budget={"trials": VALID})
    list(islice(stage.play(), 6))
    run(
        location,
        *(
            f"ALTER SEQUENCE {each.name}_id_seq RESTART"
            for each in Base.metadata.sorted_tables
            if each.autoincrement_column is not None
        ),
    )
    stage.restart()
    list(stage.play())
    assert stage.view(search).state == "finished", stage.view(search).reason
    assert stage.submit(seed=1) == search + 1
    stage.database.close()
