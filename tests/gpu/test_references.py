"""Reference results computed on a GPU equal those computed on the host."""

from typing import Any

import numpy as np
import pytest

from evo.device import Device
from evo.reference import library, rows
from tests.integration.test_references_on_gpu import PROBLEMS, module_of

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("family", PROBLEMS)
def test_expected_outputs_are_equal_on_gpu_and_host(
    gpu: Device, monkeypatch: pytest.MonkeyPatch, family: str, dtype: str
) -> None:
    module = module_of(family)
    for problem in PROBLEMS[family]:
        given: dict[str, Any] = {**problem, "dtype": dtype}
        drawn = module.inputs(given, "normal", np.random.default_rng(1))
        wanted = module.reference(given, drawn)
        with monkeypatch.context() as patch:
            patch.setattr(rows, "LARGE_ELEMENTS", 1)
            patch.setattr(module, "LARGE_FLOPS", 1, raising=False)
            found = module.reference(given, drawn)
            if hasattr(module, "yardstick"):
                errors = {
                    name: np.abs(values - wanted[name]).max() for name, values in module.yardstick(given, drawn).items()
                }
            assert library.array_library(library.LARGE_FLOPS) is not np
        for name, values in wanted.items():
            assert isinstance(found[name], np.ndarray)
            np.testing.assert_allclose(found[name], values, rtol=1e-10, atol=1e-12)
        if hasattr(module, "yardstick"):
            for name, values in module.yardstick(given, drawn).items():
                on_host = np.abs(values - wanted[name]).max()
                assert errors[name] <= 3 * on_host + 1e-7, f"{name}: {errors[name]} on the GPU, {on_host} on the host"
