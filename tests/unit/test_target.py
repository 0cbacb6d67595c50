"""Searches can target a GPU that is not available."""

from pathlib import Path

import pytest

from evo.cli.commands.record import _keep
from evo.client import Client
from evo.device import Device
from evo.device.estimate.target import aimed_at, compared_with, known, place_text
from evo.errors import InvalidInput
from evo.trial.objective import Objective
from tests.unit.views import view

L4, H100 = known("sm_89"), known("sm_90")
STAND_IN = Device(kind="estimate", model="compiler alone", architecture="any target", uuid="e")
FOR_L4 = Objective(target="NVIDIA L4")


def test_objective_without_target_applies_to_the_measured_device() -> None:
    assert aimed_at(H100, Objective()) is H100
    assert compared_with(H100, Objective()) is H100
    assert place_text(H100, Objective()) == "NVIDIA H100 80GB HBM3"


def test_search_with_target_uses_target_limits_and_the_device_roofline() -> None:
    assert aimed_at(H100, FOR_L4) == L4
    assert compared_with(H100, FOR_L4) is H100
    expected = "timed on NVIDIA H100 80GB HBM3 (sm_90), within the limits of NVIDIA L4 (sm_89)"
    assert place_text(H100, FOR_L4) == expected


def test_estimate_uses_limits_and_roofline_of_the_target() -> None:
    assert aimed_at(STAND_IN, FOR_L4) == compared_with(STAND_IN, FOR_L4) == L4
    assert place_text(STAND_IN, FOR_L4) == "estimated for NVIDIA L4 (sm_89), never run"


def test_objective_key_contains_the_target_only_if_set() -> None:
    assert Objective().key == "hot,threads=1,plain,float32,deterministic,v3"
    assert FOR_L4.key == "hot,threads=1,plain,float32,deterministic,v3,for=NVIDIA L4"


def test_estimates_are_not_recorded_as_measurements(tmp_path: Path) -> None:
    with Client("http://127.0.0.1:9") as nobody, pytest.raises(InvalidInput, match="only estimated its trials"):
        _keep(nobody, view(device=STAND_IN, objective=FOR_L4), tmp_path)
    assert list(tmp_path.iterdir()) == []
