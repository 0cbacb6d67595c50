"""PyTorch baselines get the right arguments on a GPU, tested with a fake PyTorch."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evo.reference.torch_baselines import on_cpu, torch_baselines


class Torch:
    """A fake PyTorch with the functions that baselines use."""

    def __init__(self, *, sees_gpu: bool) -> None:
        self.cuda = SimpleNamespace(is_available=lambda: sees_gpu)
        self.compilations = self.threads = 0

    def from_numpy(self, values: Any) -> Any:
        return SimpleNamespace(cuda=values.tolist, values=values.tolist())

    def set_num_threads(self, count: int) -> None:
        self.threads = count

    def compile(self, function: Callable[..., object], *, mode: str) -> Callable[..., object]:
        assert mode == "max-autotune-no-cudagraphs"
        self.compilations += 1
        return lambda *tensors: ("compiled", function(*tensors))


def test_torch_baseline_passes_tensors_in_order_and_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = Torch(sees_gpu=True)
    monkeypatch.setitem(sys.modules, "torch", torch)
    offered = torch_baselines(lambda x, weight: (x, weight), ("x", "weight"), dtype="float32")
    inputs = {"weight": np.array([2]), "x": np.array([1])}
    assert offered["torch"](inputs)() == ([1], [2])
    calls = [offered["torch-compile"](inputs) for _ in range(3)]
    assert [call() for call in calls] == [("compiled", ([1], [2]))] * 3
    assert torch.compilations == 1


def test_error_for_a_torch_baseline_without_gpu_names_the_pytorch_build_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", Torch(sees_gpu=False))
    with pytest.raises(ImportError, match="finds no GPU; install a PyTorch that is built for CUDA"):
        torch_baselines(len, ("x",), dtype="float32")["torch"]({"x": np.array([1])})


@pytest.mark.parametrize(("stated", "threads"), [(None, 1), ("6", 6)])
def test_cpu_baseline_uses_the_stated_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, stated: str | None, threads: int
) -> None:
    torch = Torch(sees_gpu=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if stated is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", stated)
    inputs = {"weight": np.array([2]), "x": np.array([1])}
    call = on_cpu(lambda x, weight: (x.values, weight.values), ("x", "weight"), "float32", inputs)
    assert (call(), torch.threads) == (([1], [2]), threads)
