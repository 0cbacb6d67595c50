"""A CPU device and test families, for tests that compile and run real kernels."""

import ctypes
import subprocess
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from evo.device import Device
from evo.messages.job import FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.trial import Config, Value
from evo.trial.objective import Objective
from templates.registry import Package, find
from workers.backends import driver
from workers.system import private_folders

FAMILIES = Path(__file__).parent.parent / "data" / "families"

QUICK = Policy(
    quick_samples=10,
    confirm_samples=10,
    confirm_processes=1,
    verify_timeout_s=60.0,
    measure_timeout_s=60.0,
    seeds=2,
)


@cache
def faulty() -> Package:
    """Return a family whose tunable FAULT selects a planted fault."""
    return find(str(FAMILIES / "faulty"))


def cpu(folder: Path) -> Device:
    """Return this machine's CPU as a device. Its measurements are cached in `folder`."""
    (device,) = driver("cpu").discover(folder)
    return device


def config(fault: str = "none", unroll: int = 1) -> Config:
    return {"FAULT": fault, "UNROLL": unroll}


def terms(device: Device, package: Package, search_id: int = 1, **changes: Any) -> SearchTerms:
    """Return terms of a quick search; keyword arguments replace problem, objective, policy or seed."""
    problem: Mapping[str, Value] = changes.pop("problem", None) or package.family.problem("N=256", "cpu")
    return SearchTerms(
        search_id=search_id,
        family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
        problem=problem,
        device=device,
        **{"objective": Objective(), "policy": QUICK, "seed": 7, **changes},
    )


def without_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start kernel processes without the capability to enter private folders, as in a container."""
    drop = partial(ctypes.CDLL(None).prctl, 24, 2, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH
    monkeypatch.setattr(subprocess, "Popen", partial(subprocess.Popen, preexec_fn=drop))
    monkeypatch.setattr(private_folders, "_bounding", lambda: 0)
