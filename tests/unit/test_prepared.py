"""The preparation of a runner does not use the GPU, because another process may be measuring on the GPU."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cupy_stand_in import cupy
from tests.unit.test_reference import plan
from workers.measure.family.reference import Reference
from workers.measure.prepared import Prepared
from workers.runner.protocol import CasePlan

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
        reference=str(path), family_digest=f"{flops}{drawn}", folder=str(folder / "cache"), cases=(plan(),), modules=()
    )
    return SimpleNamespace(terms=terms)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy(1))


def test_reference_that_needs_the_gpu_is_not_computed_in_advance(tmp_path: Path) -> None:
    prepared = Prepared.ahead(request(tmp_path, 1e12))
    assert prepared is not None
    assert prepared.golden is None
    complete = prepared.complete()
    assert complete.golden is not None
    golden = complete.golden["nominal"][0]
    assert golden.inputs is prepared.drawn[0]
    np.testing.assert_array_equal(golden.reference["y"], 2.0 * golden.inputs["x"].astype(np.float64))
    assert complete.complete() is complete


def test_expected_outputs_that_need_no_gpu_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def compute(self: Reference, plan: CasePlan, inputs: Any) -> Any:
        made = unpatched(self, plan, inputs)
        computed.append(plan.name)
        return made

    unpatched = Reference._compute
    monkeypatch.setattr(Reference, "_compute", compute)
    asked = request(tmp_path, "problem['FLOPS']")
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
    assert Prepared.ahead(asked) is None
    assert Prepared.of(asked.terms).golden is not None


def test_references_are_computed_in_advance_on_machines_without_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    prepared = Prepared.ahead(request(tmp_path, 1e12))
    assert prepared is not None
    assert prepared.golden is not None
