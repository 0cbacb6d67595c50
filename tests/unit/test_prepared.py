"""The preparation of a runner uses the GPU only if no other process has locked it, which may be measuring."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evo.reference.library import GpuNeededError
from tests.cupy_stand_in import cupy
from tests.unit.test_reference import plan
from workers.measure.family.reference import Reference
from workers.measure.prepared import Claim, Prepared
from workers.runner.protocol import CasePlan
from workers.system.device_lock import exclusive, exclusive_if_free

LARGE = """
import numpy as np
from evo.reference.library import computing

def inputs(problem, distribution, rng):
    {drawn}
    return {{"x": rng.standard_normal(problem["N"]).astype(np.float32)}}

def reference(problem, inputs):
    with computing({flops}) as library:
        x = library.asarray(inputs["x"]).astype(np.float64)
        return {{"y": 2.0 * x if library is np else library.asnumpy(2.0 * x)}}

def yardstick(problem, inputs):
    return {{"y": (2.0 * inputs["x"] + 0.25).astype(np.float32)}}
"""


def request(folder: Path, flops: float | str, drawn: str = "") -> Any:
    path = folder / "reference.py"
    path.write_text(LARGE.format(flops=flops, drawn=drawn))
    terms = SimpleNamespace(
        reference=str(path),
        family_digest=f"{flops}{drawn}",
        folder=str(folder / "cache"),
        cases=(plan(),),
        modules=(),
        keeps_memory=False,
        device=SimpleNamespace(kind="cuda", uuid=f"GPU-{folder.name}"),
    )
    return SimpleNamespace(terms=terms)


class FakeDriver:
    """Driver of a GPU; it records the devices on which expected outputs are computed."""

    def __init__(self) -> None:
        self.chosen: list[str] = []
        self.fault: Exception | None = None

    def choose(self, device: Any) -> None:
        self.chosen.append(device.uuid)
        if self.fault is not None:
            raise self.fault


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeDriver:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # for lock files
    monkeypatch.setitem(sys.modules, "cupy", cupy(1))
    fake = FakeDriver()
    monkeypatch.setattr("workers.measure.prepared.driver", lambda kind: fake if kind == "cuda" else object())
    return fake


def is_free(uuid: str) -> bool:
    with exclusive_if_free(uuid) as free:
        return free


def test_reference_that_needs_the_gpu_is_computed_in_advance_if_the_gpu_is_free(
    tmp_path: Path, gpu: FakeDriver
) -> None:
    asked = request(tmp_path, 1e12)
    prepared = Prepared.ahead(asked)
    assert prepared is not None
    assert prepared.golden is not None
    uuid = asked.terms.device.uuid
    assert gpu.chosen == [uuid]
    assert is_free(uuid), "the lock is released"


def test_gpu_is_locked_while_expected_outputs_are_computed_in_advance(tmp_path: Path) -> None:
    asked = request(tmp_path, 1e12)
    with Claim(asked.terms.device) as claim:
        assert is_free(asked.terms.device.uuid), "nothing has needed the GPU yet"
        assert claim.succeeds()
        assert claim.succeeds()
        assert not is_free(asked.terms.device.uuid)
    assert is_free(asked.terms.device.uuid)


@pytest.mark.parametrize("fault", [RuntimeError("no such GPU"), None])
def test_large_expected_outputs_are_not_computed_on_unusable_gpus_or_for_other_devices(
    tmp_path: Path, gpu: FakeDriver, fault: Exception | None
) -> None:
    asked = request(tmp_path, 1e12)
    gpu.fault = fault
    asked.terms.device.kind = "cpu" if fault is None else "cuda"
    prepared = Prepared.ahead(asked)
    assert prepared is not None
    assert prepared.golden is None
    assert is_free(asked.terms.device.uuid)


def test_reference_that_needs_the_gpu_is_not_computed_in_advance_on_a_locked_gpu(tmp_path: Path) -> None:
    asked = request(tmp_path, 1e12)
    with exclusive(asked.terms.device.uuid):
        prepared = Prepared.ahead(asked)
    assert prepared is not None
    assert prepared.golden is None
    complete = prepared.complete()
    assert complete.golden is not None
    golden = complete.golden["nominal"][0]
    assert golden.inputs is prepared.drawn[0]
    np.testing.assert_array_equal(golden.reference["y"], 2.0 * golden.inputs["x"].astype(np.float64))
    assert complete.complete() is complete


@pytest.mark.parametrize(("kind", "on_gpu"), [("cpu", False), ("cpu", True), ("cuda", False)])
def test_mixed_inputs_are_prepared_for_kernels_on_the_host_unless_mixing_needs_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, on_gpu: bool
) -> None:
    asked = request(tmp_path, 1.0)
    asked.terms.device.kind = kind
    other = replace(plan(), name="other", distribution="other", seeds=((1, 3),))
    asked.terms.cases = (plan(), other)

    def refused(*_: Any) -> Any:
        raise GpuNeededError("compute it later")

    if on_gpu:
        monkeypatch.setattr(Reference, "mixtures", refused)
    prepared = Prepared.ahead(asked)
    assert prepared is not None
    assert prepared.golden is not None
    if kind == "cuda" or on_gpu:
        assert prepared.mixtures is None
        return
    expected = prepared.reference.mixtures(asked.terms.cases, prepared.golden)
    assert prepared.mixtures is not None
    assert [each.case for each in prepared.mixtures] == [each.case for each in expected] != []
    for one, same in zip(prepared.mixtures, expected, strict=True):
        np.testing.assert_array_equal(one.inputs["x"], same.inputs["x"])
        np.testing.assert_array_equal(one.reference["y"], same.reference["y"])


def test_expected_outputs_that_need_no_gpu_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def compute(self: Reference, plan: CasePlan, inputs: Any) -> Any:
        made = unpatched(self, plan, inputs)
        computed.append(plan.name)
        return made

    unpatched = Reference._compute
    monkeypatch.setattr(Reference, "_compute", compute)
    asked = request(tmp_path, "problem['FLOPS']")
    asked.terms.device.kind = "cpu"
    sizes = {"large": 1e12, "small": 1.0, "smaller": 0.0}
    asked.terms.cases = [replace(plan(), name=name, problem={"N": 5, "FLOPS": size}) for name, size in sizes.items()]
    prepared = Prepared.ahead(asked)
    assert prepared is not None
    assert prepared.golden is None
    assert sorted(computed) == ["small", "smaller"]
    golden = prepared.complete().golden
    assert golden is not None
    assert [name for name, (each,) in golden.items() if each.case == name] == list(sizes)
    assert sorted(computed) == sorted(sizes)


def test_expected_outputs_are_not_computed_in_advance_if_inputs_need_the_gpu(tmp_path: Path) -> None:
    asked = request(tmp_path, 1e12, "from evo.reference.library import array_library; array_library(1e12)")
    with exclusive(asked.terms.device.uuid):
        assert Prepared.ahead(asked) is None
    assert Prepared.of(asked.terms).golden is not None


def test_expected_outputs_are_computed_in_advance_on_machines_without_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    prepared = Prepared.ahead(request(tmp_path, 1e12))
    assert prepared is not None
    assert prepared.golden is not None
