"""Large expected outputs are computed with CuPy on machines with a GPU, and all others with NumPy."""

import sys
import threading
from types import ModuleType

import numpy as np
import pytest

from evo.reference import Arrays, rows
from evo.reference.encoding import decoded, encoded
from evo.reference.library import (
    LARGE_ELEMENTS,
    LARGE_FLOPS,
    GpuNeededError,
    array_library,
    computing,
    gpu_if,
    use_gpu,
)
from tests.cupy_stand_in import OnGpu, cupy


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "cupy", module := cupy(1))
    return module


def test_large_reference_work_uses_an_available_gpu(there: ModuleType) -> None:
    assert array_library(LARGE_FLOPS) is there
    assert array_library(1e9, large=1e9) is there
    assert array_library(1.0, elements=LARGE_ELEMENTS) is there
    assert array_library(1.0, large=float("inf"), elements=LARGE_ELEMENTS - 1) is np
    assert array_library(LARGE_FLOPS - 1) is np


def test_large_reference_work_without_gpu_access_raises_gpu_needed(there: ModuleType) -> None:
    with gpu_if(lambda: False):
        assert array_library(LARGE_FLOPS - 1) is np
        with pytest.raises(GpuNeededError, match="which another process may be using"):
            array_library(LARGE_FLOPS)
    assert array_library(LARGE_FLOPS) is there


@pytest.mark.parametrize("obstacle", [None, cupy(RuntimeError("no driver"))])
def test_reference_work_uses_numpy_on_machines_without_gpu(
    monkeypatch: pytest.MonkeyPatch, obstacle: ModuleType | None
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", obstacle)
    with gpu_if(lambda: False):
        assert array_library(LARGE_FLOPS) is np


def test_gpu_is_used_by_one_thread_at_a_time_and_its_memory_is_freed(there: ModuleType) -> None:
    at_work, most = 0, 0

    def compute() -> None:
        nonlocal at_work, most
        with computing(LARGE_FLOPS) as library:
            assert library is there
            at_work += 1
            most = max(most, at_work)
            threading.Event().wait(0.01)
            at_work -= 1

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert most == 1
    assert there.get_default_memory_pool().freed == 4


def test_all_threads_of_a_reference_compute_on_the_chosen_gpu(there: ModuleType) -> None:
    used: list[int] = []

    def compute() -> None:
        with computing(LARGE_FLOPS) as library:
            used.append(library.cuda.Device.current.index)

    use_gpu(3)
    try:
        thread = threading.Thread(target=compute)
        thread.start()
        thread.join()
        compute()
    finally:
        use_gpu(0)
    compute()
    assert used == [3, 3, 0]


@pytest.mark.parametrize("elements", [1 << 30, 7 * 40])
def test_computation_by_rows_gives_the_same_results_on_gpu_and_host(
    there: ModuleType, monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    monkeypatch.setattr(rows, "GPU_BLOCK_ELEMENTS", elements)
    used: list[type] = []

    @rows.by_rows
    def scaled(problem: object, inputs: Arrays) -> dict[str, np.ndarray]:
        used.append(type(inputs["x"]))
        x = decoded(inputs["x"], "bfloat16").astype(np.float64)
        return {"out": x * inputs["weight"], "total": x.sum(axis=-1), "codes": encoded(x, "bfloat16")}

    rng = np.random.default_rng(0)
    inputs = {"x": encoded(rng.standard_normal((50, 40), np.float32), "bfloat16"), "weight": rng.random(40)}
    on_host = scaled({}, inputs)
    assert set(used) == {np.ndarray}
    used.clear()
    monkeypatch.setattr(rows, "LARGE_ELEMENTS", 2000)
    on_gpu = scaled({}, inputs)
    assert set(used) == {OnGpu}
    assert len(used) == (1 if elements > 2000 else 8)
    for name, values in on_host.items():
        np.testing.assert_array_equal(on_gpu[name], values)
        assert on_gpu[name].dtype == values.dtype
