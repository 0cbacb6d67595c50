"""Expected outputs of the built-in families are equal on the host and on a GPU, with a fake CuPy."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import templates
from evo.reference import library, rows
from tests.cupy_stand_in import cupy

ROWS = {"rows": 37, "cols": 83}
HEADS = {"B": 2, "H": 4, "S": 40, "D": 16}
PROBLEMS: dict[str, list[dict[str, Any]]] = {
    "softmax": [ROWS],
    "rmsnorm": [{**ROWS, "residual": residual} for residual in (False, True)],
    "layernorm": [{**ROWS, "residual": residual} for residual in (False, True)],
    "swiglu": [ROWS],
    "transpose": [ROWS],
    "cross_entropy": [ROWS],
    "gemm": [
        {"M": 33, "N": 48, "K": 64, "a_layout": "mk", "b_layout": layout, "epilogue": epilogue}
        for layout, epilogue in (("kn", "none"), ("nk", "bias_relu"), ("nk", "bias_gelu_tanh"), ("nk", "bias_silu"))
    ],
    "sdpa": [
        {**HEADS, "causal": True},
        {**HEADS, "KV": 2, "causal": True, "window": 7, "layout": "bshd", "lse": True},
        {**HEADS, "causal": False, "lengths": "ragged", "softcap": 20.0, "alibi": True},
    ],
    "sdpa_decode": [{**HEADS, "KV": 2, "Q": 2, "causal": True, "lengths": "full"}],
}


@contextmanager
def on_gpu(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> Iterator[None]:
    """Within the `with` block, compute expected outputs of every size on the fake GPU."""
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "cupy", cupy(1))
        patch.setattr(rows, "LARGE_ELEMENTS", 1)
        patch.setattr(module, "LARGE_FLOPS", 1, raising=False)
        patch.setattr(library, "LARGE_FLOPS", 1)
        yield


def module_of(family: str) -> ModuleType:
    path = Path(templates.__file__).parent / family / "reference.py"
    spec = importlib.util.spec_from_file_location(f"reference_of_{family}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    ("family", "problem"),
    [
        pytest.param(family, each, id=f"{family}{i}")
        for family, all_of in PROBLEMS.items()
        for i, each in enumerate(all_of)
    ],
)
def test_expected_outputs_computed_with_a_fake_cupy_equal_those_of_the_host(
    monkeypatch: pytest.MonkeyPatch, family: str, problem: dict[str, Any], dtype: str
) -> None:
    module, given = module_of(family), {**problem, "dtype": dtype}
    drawn = module.inputs(given, "normal", np.random.default_rng(1))
    functions = [each for each in ("reference", "yardstick") if hasattr(module, each)]
    wanted = {name: getattr(module, name)(given, drawn) for name in functions}
    with on_gpu(monkeypatch, module):
        found = {name: getattr(module, name)(given, drawn) for name in functions}
    for name in functions:
        assert found[name].keys() == wanted[name].keys()
        for output, values in wanted[name].items():
            assert type(found[name][output]) is np.ndarray
            np.testing.assert_allclose(found[name][output], values, rtol=1e-6 if values.dtype != np.float64 else 1e-13)
