"""Exported CUDA champions run in new processes, with CuPy alone and as a PyTorch operator."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evo.device import Device
from evo.export.bundle import Bundle
from evo.trial import Config
from templates.registry import find
from tests.gpu.record import Recorder
from tests.unit.views import CHAMPION, view

pytestmark = pytest.mark.gpu

FAMILY = Path(__file__).parent.parent / "data" / "families" / "faulty_cuda"
PROBLEM: Config = {"N": 1000}
CONFIG: Config = {"FAULT": "none", "REPEAT": 1}
BY_CUPY = """
import cupy as cp
from kernel import Kernel
x = cp.arange(1000, dtype=cp.float32)
out = Kernel()(x=x)["y"]
assert cp.array_equal(out, 3 * x + 1)
"""
BY_TORCH = """
import torch
from torch_op import op
x = torch.arange(1000, dtype=torch.float32, device="cuda")
assert torch.equal(op(x), 3 * x + 1)
compiled = torch.compile(lambda x: op(x) * 2, fullgraph=True)
assert torch.equal(compiled(x), 2 * (3 * x + 1))
with torch.cuda.stream(torch.cuda.Stream()):
    assert torch.equal(op(x), 3 * x + 1)
streams, made = [torch.cuda.Stream() for _ in range(2)], []
torch.cuda.synchronize()
for turn in range(20):
    with torch.cuda.stream(streams[turn % 2]):
        made.append(op(x + turn))
torch.cuda.synchronize()
assert all(torch.equal(each, 3 * (x + turn) + 1) for turn, each in enumerate(made))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = op(x)
graph.replay()
assert torch.equal(captured, 3 * x + 1)
try:
    op(torch.arange(1001, dtype=torch.float32, device="cuda")[1:])
except ValueError as error:
    assert "is not aligned to 16 bytes" in str(error)
else:
    raise AssertionError("an odd address was taken")
torch.library.opcheck(op, (x,), test_utils=("test_schema", "test_faketensor"))
"""


@pytest.fixture(scope="module")
def folder(gpu: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, made = tmp_path_factory.mktemp("build"), tmp_path_factory.mktemp("export")
    with Recorder(gpu, place, place).subject(str(FAMILY), "N=1000", CONFIG) as subject:
        bundle = Bundle(
            champion=replace(CHAMPION, family="faulty_cuda", problem=PROBLEM, config=CONFIG),
            search=view(family="faulty_cuda", problem=PROBLEM, device=gpu),
            family=find(str(FAMILY)).family,
            source=subject.unit.source.encode(),
            library=Path(subject.kernel.path).read_bytes(),
        )
        for name, content in bundle.files().items():
            (made / name).write_bytes(content)
    return made


@pytest.mark.parametrize(("needs", "program"), [("cupy", BY_CUPY), ("torch", BY_TORCH)])
def test_exported_kernel_computes_correctly_in_a_new_process(folder: Path, needs: str, program: str) -> None:
    pytest.importorskip(needs)
    pytest.importorskip("cupy")
    subprocess.run([sys.executable, "-c", program], check=True, cwd=folder, timeout=300)


def test_exported_loader_times_the_kernel_when_run_as_a_script(folder: Path) -> None:
    pytest.importorskip("cupy")
    shown = subprocess.run(
        [sys.executable, "kernel.py"], check=True, cwd=folder, timeout=300, capture_output=True, text=True
    ).stdout
    assert "median of 50 launches" in shown
