"""A worker discovers devices of all kinds concurrently."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.daemon import daemon


def test_device_kinds_are_discovered_concurrently_and_listed_in_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    both = threading.Barrier(2, timeout=60)

    def discover(kind: str) -> list[str]:
        both.wait()  # times out unless both kinds are discovered concurrently
        return [f"{kind} 0", f"{kind} 1"]

    def driver(kind: str) -> SimpleNamespace:
        if kind == "absent":
            raise ModuleNotFoundError(kind)
        return SimpleNamespace(discover=lambda _: discover(kind))

    monkeypatch.setattr(daemon, "driver", driver)
    found = daemon.discover(("cuda", "absent", "cpu"), tmp_path)
    assert [str(each) for each in found] == ["cuda 0", "cuda 1", "cpu 0", "cpu 1"]


def test_machine_without_devices_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(daemon, "driver", lambda _: SimpleNamespace(discover=lambda _: []))
    with pytest.raises(daemon.NoDevice, match="no device of kind cuda, cpu was found"):
        daemon.discover(("cuda", "cpu"), tmp_path)
