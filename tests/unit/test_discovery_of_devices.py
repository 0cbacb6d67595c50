"""A worker discovers devices of all kinds concurrently."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from evo.cli.service import devices
from evo.errors import EvoError
from workers.backends import discovery
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

    monkeypatch.setattr(discovery, "driver", driver)
    found = daemon.discover(("cuda", "absent", "cpu"), tmp_path)
    assert [str(each) for each in found] == ["cuda 0", "cuda 1", "cpu 0", "cpu 1"]


def test_machine_without_devices_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(discovery, "driver", lambda _: SimpleNamespace(discover=lambda _: []))
    with pytest.raises(daemon.NoDevice, match="no device of kind cuda, cpu was found"):
        daemon.discover(("cuda", "cpu"), tmp_path)


def broken_driver(kind: str) -> SimpleNamespace:
    """Return the driver of a kind; the kind `broken` belongs to a package that cannot be imported."""
    if kind == "broken":
        raise EvoError("the driver of the device kind broken cannot be loaded")
    return SimpleNamespace(discover=lambda _: [f"{kind} 0"])


def test_worker_uses_the_devices_of_other_kinds_if_a_driver_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(discovery, "driver", broken_driver)
    assert [str(each) for each in daemon.discover(("broken", "cpu"), tmp_path)] == ["cpu 0"]
    with pytest.raises(EvoError, match="broken cannot be loaded"):
        daemon.discover(("broken",), tmp_path)


def test_commands_use_the_devices_of_other_kinds_if_a_driver_cannot_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(discovery, "driver", broken_driver)
    monkeypatch.setattr(devices, "implemented_kinds", lambda: ("broken", "cpu"))
    assert [str(each) for each in devices.local_devices()] == ["cpu 0"]
    assert "Devices of kind broken are not available: the driver" in capsys.readouterr().err
    monkeypatch.setattr(devices, "implemented_kinds", lambda: ("broken",))
    with pytest.raises(EvoError, match="broken cannot be loaded"):
        devices.local_devices()
