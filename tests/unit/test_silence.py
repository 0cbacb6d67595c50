"""The service states the seconds since a worker's last request, so the clock of a client has no effect."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from evo.cli.service import local
from evo.client import Client
from evo.device import Device
from evo.messages.view import Page, WorkerView
from evo.messages.worker_state import silence, worker_text

DEVICE = Device(kind="cpu", model="Toy CPU", architecture="x86_64", uuid="cpu-0")
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)
WORKER = WorkerView(id="w1", name="w1", host="here", devices=(DEVICE,), seen_at=LONG_AGO, silent_s=3.0)


def test_seconds_since_contact_stated_by_the_service_override_the_local_clock() -> None:
    assert silence(WORKER) == 3.0 and worker_text(WORKER) == "connected"
    earlier = replace(WORKER, silent_s=None)
    assert silence(earlier, LONG_AGO + timedelta(seconds=7)) == 7.0
    assert worker_text(earlier).startswith("silent for")


@pytest.mark.parametrize(("silent_s", "within_s", "connected"), [(3.0, 45.0, True), (3.0, 2.0, False), (50, 45, False)])
def test_worker_counts_as_connected_for_the_given_seconds_after_its_last_contact(
    monkeypatch: pytest.MonkeyPatch, silent_s: float, within_s: float, connected: bool
) -> None:
    worker = replace(WORKER, silent_s=silent_s)
    monkeypatch.setattr(Client, "workers", lambda _: Page(items=(worker,)))
    url = "http://127.0.0.1:9"
    assert local.worker_connected(url, within_s=within_s) is connected
    assert not local.worker_connected(url, within_s=within_s, other_than="w1")
