"""A real service with a worker on this machine's CPU and a recorded space, for browser tests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evo.client import Client
from evo.messages.view import SearchView
from evo.search.lifecycle import TERMINAL
from templates.registry import find
from tests.integration.serving import served, wait_until
from tests.measured import measured
from workers.daemon.daemon import Settings, serve

ROOT = Path(__file__).resolve().parents[3]
SAXPY = ROOT / "docs" / "guides" / "examples" / "saxpy"
RECORDED = ROOT / "tests" / "data" / "synthetic.json"

QUICK = {
    "quick_samples": 5,
    "confirm_samples": 10,
    "confirm_processes": 2,
    "most_processes": 4,
    "verify_timeout_s": 5.0,
    "measure_timeout_s": 10.0,
    "seeds": 1,
}
"""A policy with few samples, because these tests check pages and not measurements."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A running service.

    Attributes:
        measured: a finished search on the real CPU, with a champion.
        recorded: a finished search of a recorded space, with failures.
    """

    url: str
    database: Path
    client: Client
    measured: int
    recorded: int

    def finished(self, search_id: int) -> SearchView:
        """Wait until a search has ended, and return it."""
        wait_until(lambda: self.client.search(search_id).state in TERMINAL)
        return self.client.search(search_id)


def register(client: Client, family: Path | str) -> str:
    """Register a family and return its digest."""
    package = find(str(family))
    client.register_family(
        package.digest, name=package.family.name, document=package.family.document, location=package.location
    )
    return package.digest


def submit(client: Client, family: Path | str, **terms: Any) -> int:
    given = {"family_digest": register(client, family), "strategy": "random", "policy": QUICK, **terms}
    return client.create_search(given).id


@contextmanager
def site(folder: Path, *, trials: int = 60) -> Iterator[Site]:
    """Yield the site once both searches have ended. `trials` is the budget of the search of the recorded space."""
    database = folder / "evo.db"
    with _own_device_lock(folder), served(database) as url, Client(url) as client, _working(url, folder):
        wait_until(lambda: len({device.kind for row in client.workers().items for device in row.devices}) == 2)
        made = Site(
            url=url,
            database=database,
            client=client,
            measured=submit(client, SAXPY, problem="N=4096", device="cpu", budget={"trials": max(8, trials // 10)}),
            recorded=submit(client, RECORDED, device="replay", budget={"trials": trials}),
        )
        made.finished(made.measured)
        made.finished(made.recorded)
        yield made


@contextmanager
def _own_device_lock(folder: Path) -> Iterator[None]:
    """Use a separate device lock, so that other measurements on this machine do not block these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr("tempfile.tempdir", None)
        yield


@contextmanager
def _working(url: str, folder: Path) -> Iterator[None]:
    stopping = threading.Event()
    settings = Settings(
        url=url,
        data=folder / "data",
        cache=measured(folder / "cache"),
        kinds=["cpu", "replay"],
        worker_id="w1",
        name="laptop",
    )
    thread = threading.Thread(target=serve, args=[settings], kwargs={"stopping": stopping}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(60)
