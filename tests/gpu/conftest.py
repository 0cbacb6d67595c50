"""Fixtures of the GPU tests. Without a GPU, the tests are skipped with the reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evo.device import Device
from evo.trial.objective import Objective
from tests.gpu.kernels import Workbench
from workers.backends.cuda.device import DRIVER, CudaSession


@pytest.hookimpl(tryfirst=True)  # runs before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests of family kernels run in parallel; tests that occupy, fill or break the GPU keep their order."""
    for item in items:
        if item.path.parent.name == "gpu" and item.path.stem not in ("test_cuda_families", "test_cuda_starts"):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="session")
def gpu() -> Device:
    devices, obstacle = DRIVER.look()
    if not devices:
        pytest.skip(f"no GPU: {obstacle}")
    return devices[0]


@pytest.fixture(scope="session")
def session(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CudaSession]:
    yield DRIVER.open(gpu, Objective(), tmp_path_factory.mktemp("cache"))


@pytest.fixture
def bench(gpu: Device, session: CudaSession, tmp_path: Path) -> Workbench:
    return Workbench(gpu=gpu, session=session, folder=tmp_path)
