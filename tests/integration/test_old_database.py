"""A database that release 0.1.0 wrote is migrated and shown, and its searches continue."""

import io
import json
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import JSON, Boolean, DateTime, MetaData, Table, insert, select, text, update

from api.schemas import SearchRequest
from db.engine.location import Location
from db.engine.schema import configuration
from db.engine.session import Database, store_of
from db.models import Base, SearchRow, TrialRow
from evo.messages.job import Confirm, Evaluate, Lease
from evo.promotion.policy import DECLARED, Policy
from evo.trial.objective import PROTOCOL_VERSION
from evo.trial.outcome import Measured
from evo.trial.results import ConfirmReport, Report
from tests.integration.conftest import ENGINES
from tests.integration.inside import serving
from tests.integration.stage import PROOF, QUICK, Stage, answer, timing

DATABASES = Path(__file__).parents[1] / "data" / "databases"
WRITTEN = DATABASES / "0.1.sql"
"""Database with schema 0008: a finished search of 6 trials. The second of two confirmations promoted a champion."""
ARTEFACTS = DATABASES / "0.1-artefacts"
"""Folder with the source and the binary of the champion, without those of the other trials."""


@pytest.fixture(params=ENGINES)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    """Yield the database that release 0.1.0 wrote, on every engine."""
    file = tmp_path / "evo.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(WRITTEN.read_text(encoding="utf-8"))
    if request.param == "sqlite":
        return Location.of(file)
    location: Location = request.getfixturevalue("postgresql").create()
    _copy(file, location)
    return location


def _copy(file: Path, location: Location) -> None:
    """Create the schema of release 0.1.0 on a PostgreSQL server, and insert the rows of a SQLite file."""
    engine = store_of(location).engine()
    with engine.connect() as connection, connection.begin():
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, "0008")
    tables = MetaData()
    tables.reflect(engine)
    with closing(sqlite3.connect(file)) as source, engine.begin() as connection:
        source.row_factory = sqlite3.Row
        for table in tables.sorted_tables:
            rows = [
                {column.name: _value(column.type, row[column.name]) for column in table.columns}
                for row in source.execute(f'SELECT * FROM "{table.name}"')
            ]
            if not rows or table.name == "alembic_version":
                continue
            connection.execute(insert(table), rows)
            if isinstance(rows[0].get("id"), int):
                connection.execute(
                    text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM {table.name}")
                )
    engine.dispose()


def _value(kind: Any, stored: Any) -> Any:
    """Convert a value of a SQLite file for a column of another engine."""
    if stored is None:
        return None
    if isinstance(kind, JSON):
        return json.loads(stored)
    if isinstance(kind, DateTime):
        return datetime.fromisoformat(stored).replace(tzinfo=UTC)
    return bool(stored) if isinstance(kind, Boolean) else stored


@pytest.fixture
def stage(old: Location) -> Iterator[Stage]:
    stage = Stage(old, now=datetime(2026, 12, 1, tzinfo=UTC))
    yield stage
    stage.database.close()


def test_migrated_schema_equals_the_schema_of_the_models(old: Location) -> None:
    database = Database.open(old)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
    database.close()


def test_search_champion_and_evidence_of_release_0_1_0_are_served(old: Location) -> None:
    with serving(old, artefacts=ARTEFACTS) as service, service.client() as client:

        def got(path: str) -> Any:
            return client.get(f"/api/v1{path}", headers={"Accept": "application/json"}).raise_for_status().json()

        (search,) = got("/searches")["items"]
        assert (search["state"], search["counts"], search["problem"]) == (
            "finished",
            {"measured": 6},
            {"N": 4096, "A": 3},
        )
        trials = got("/searches/1/trials?sort=number")["items"]
        assert [each["outcome"]["kind"] for each in trials] == ["measured"] * 6
        assert got("/searches/1")["best"]["config"] == {"WIDTH": 8, "UNROLL": 8, "PREFETCH": 0}
        champion = got("/champions/1")
        assert champion["current"] and champion["config"] == {"WIDTH": 8, "UNROLL": 8, "PREFETCH": 0}
        evidence = client.get("/champions/1/evidence.json").raise_for_status().json()
        assert evidence["verdict"]["promote"] and len(evidence["report"]["repeats"]) == 4
        for page in ("/", "/searches/1", "/searches/1/plots", "/searches/1/trials/2", "/champions", "/champions/1"):
            assert "saxpy" in client.get(page).raise_for_status().text
        exported = zipfile.ZipFile(io.BytesIO(client.get("/champions/1/export.zip").raise_for_status().content))
    files = {Path(name).name: exported.read(name) for name in exported.namelist()}
    library = (ARTEFACTS / "ea" / "0d6f857fb9ef3d54a482d3b422fcc8a077d1562626ef9f262d192db58802dd").read_bytes()
    assert b"void saxpy(" in files["kernel.c"] and library in files.values(), sorted(files)


def test_stored_policy_gets_defaults_for_fields_added_later(old: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DECLARED, "rounds", 3.0)
    database = Database.open(old)
    with database.read() as session:
        policy = session.get_one(SearchRow, 1).policy
    database.close()
    assert policy == replace(Policy(), name="custom", quick_samples=10, confirm_samples=10, process_samples=20, seeds=1)
    assert policy.thresholds == {} and policy.threshold("rounds") == 3.0


def test_trial_refuted_in_an_earlier_release_is_not_ranked(old: Location) -> None:
    database = Database.open(old)
    with database.engine.begin() as connection:
        trials = Table("trials", MetaData(), autoload_with=connection)
        confirmed = connection.execute(select(trials).where(trials.c.confirmed.is_not(None))).first()
        assert confirmed is not None and confirmed.cost is not None
        refuted = {**confirmed.confirmed, "refuted": "It returns stored results."}
        connection.execute(update(trials).where(trials.c.id == confirmed.id).values(confirmed=refuted))
        connection.execute(text("UPDATE alembic_version SET version_num = '0025'"))
    database.close()
    database = Database.open(old)
    with database.read() as session:
        unranked = [row.id for row in session.scalars(select(TrialRow)) if row.cost is None]
    database.close()
    assert unranked == [confirmed.id]


def test_new_champion_does_not_replace_a_champion_of_an_earlier_timing_protocol(stage: Stage) -> None:
    """The champion of release 0.1.0 was timed by protocol 1. A new champion is not compared with it."""
    with stage.database.read() as session:
        row = session.get_one(SearchRow, 1)
        device, family = row.device, row.family_digest
    stage.conductor.register_worker("w1", name="w1", host="here", devices=[device])
    terms = {"family_digest": family, "problem": {"N": 4096, "A": 3}, "strategy": "random", "budget": {"trials": 4}}
    search = stage.conductor.orders.submit(SearchRequest.model_validate({**terms, "policy": QUICK}))
    while leases := stage.conductor.claim("w1", device.uuid, 1).leases:
        stage.conductor.report(leases[0].attempt_id, leases[0].token, _report(leases[0]))
    assert stage.view(search).state == "finished"
    old, new = sorted(stage.champions(), key=lambda row: row.id)
    assert (old.current, old.objective.protocol) == (True, 1)
    assert (new.current, new.objective.protocol) == (True, PROTOCOL_VERSION)
    assert (new.search_id, new.replaces) == (search, None)


def _report(lease: Lease) -> Report:
    """Return the report of a fake worker: every config takes 35 ns, and the baseline takes 350 ns."""
    fast, slow = timing(0.035), timing(0.35)
    match lease.job:
        case Evaluate():
            return answer(lease, Measured(timing=fast))
        case Confirm():
            return ConfirmReport(challenger=fast, challenger_again=fast, baselines={"library": slow}, **PROOF)
        case _:
            return answer(lease)
