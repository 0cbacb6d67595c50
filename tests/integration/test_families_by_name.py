"""Search requests name a built-in or registered family, or are refused."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from sqlalchemy import text

from api.families import BuiltinFamilies
from api.scheduler.active import utc_now
from db.engine.location import Location
from db.engine.session import Database, StoreUnavailable
from db.repositories.archive import Archive
from templates import registry
from tests.integration.local import Local, local
from tests.integration.stage import DEVICE

NAMES = {package.family.name for package in registry.builtin()}


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Local]:
    with local(tmp_path / "evo.db") as rest:
        yield rest


def test_new_service_lists_every_builtin_family(fresh: Local) -> None:
    listed = {each["name"] for each in fresh.http.get("/families", params={"limit": 200}).json()["items"]}
    assert listed == NAMES


@pytest.mark.parametrize("name", sorted(NAMES))
def test_new_service_returns_each_builtin_family_by_name_and_digest(fresh: Local, name: str) -> None:
    found = fresh.http.get(f"/families/{name}")
    assert found.status_code == 200
    assert found.json()["digest"] == registry.find(name).digest
    assert fresh.http.get(f"/families/{found.json()['digest']}").json() == found.json()


def test_new_service_accepts_a_search_of_a_builtin_family(fresh: Local) -> None:
    device = TypeAdapter(type(DEVICE)).dump_python(DEVICE, mode="json")
    devices = [device | {"limits": {"cores": 4, "simd_bytes": 32, "l1_bytes": 32768, "l2_bytes": 1048576}}]
    assert fresh.http.put("/workers/w1", json={"host": "here", "devices": devices}).status_code == 200
    begun = fresh.http.post("/searches", json={"family": "softmax", "device": "cpu"})
    assert begun.status_code == 201, begun.text
    assert begun.json()["family"] == "softmax"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(registry.recordings())[:2])
def test_new_service_accepts_a_search_of_a_recording(fresh: Local, name: str) -> None:
    package = registry.find(name)
    known = fresh.http.get(f"/families/{name}").json()
    assert (known["name"], known["digest"], known["location"]) == (name, package.digest, None)
    device = {"kind": "replay", "model": "recording", "architecture": "recording", "uuid": "replay-1"}
    assert fresh.http.put("/workers/w1", json={"host": "here", "devices": [device]}).status_code == 200
    begun = fresh.http.post("/searches", json={"family": name, "budget": {"trials": 2}})
    assert begun.status_code == 201, begun.text
    assert (begun.json()["family"], begun.json()["device"]["kind"]) == (name, "replay")


def test_unreadable_family_row_does_not_block_other_families(fresh: Local) -> None:
    fresh.prepare()
    assert fresh.http.get("/families/softmax").status_code == 200
    with fresh.service.database.write() as session:
        session.execute(text("UPDATE families SET document = '7' WHERE name = 'softmax'"))
    assert fresh.http.get("/families/toy").json()["name"] == "toy"
    assert fresh.http.get("/families/sdpa").json()["name"] == "sdpa"


def test_search_accepts_a_registered_family_by_name(fresh: Local) -> None:
    fresh.prepare()
    assert fresh.http.post("/searches", json={"family": "toy"}).json()["family"] == "toy"


def test_unknown_family_name_is_refused_with_a_suggestion(fresh: Local) -> None:
    for answer in (fresh.http.get("/families/sofmax"), fresh.http.post("/searches", json={"family": "sofmax"})):
        assert answer.status_code == 404
        assert "did you mean `softmax`?" in answer.json()["detail"]
    assert len(fresh.http.get("/families/" + "x" * 5000).content) < 2000


@pytest.mark.parametrize(
    ("named", "field"),
    [({}, "family_digest"), ({"family": "softmax", "family_digest": "0" * 64}, "family"), ({"family": ""}, "family")],
)
def test_search_request_needs_either_family_or_digest(fresh: Local, named: dict[str, str], field: str) -> None:
    answer = fresh.http.post("/searches", json=named)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_simultaneously_started_processes_register_each_family_once(locations: Callable[[], Location]) -> None:
    database = Database.open(locations())
    try:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: BuiltinFamilies(database, utc_now).ensure(), range(4)))
        with database.read() as session:
            assert {row.name for row in Archive(session).families()} == NAMES
    finally:
        database.close()


def test_families_are_listed_and_builtin_families_cannot_be_registered(
    fresh: Local, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh.prepare()

    def full(_: object = None) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(fresh.service.builtin, "ensure", full)
    assert [each["name"] for each in fresh.http.get("/families").json()["items"]] == ["toy"]
