"""Short searches on a GPU, started from the command line, find and export champions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from evo.device import Device
from evo.messages.view import SearchView

pytestmark = pytest.mark.gpu

TRIALS = 12
QUICK = """
quick_samples = 10
confirm_samples = 20
confirm_processes = 1
seeds = 1
"""
ONE_OPERATOR = """
import torch
from torch_op import op
torch.manual_seed(0)
for s in 128, 256, 512, 1024, 2048, 256:
    q, k, v = (torch.randn(1, 2, s, 64, dtype=torch.float16, device="cuda") for _ in range(3))
    right = torch.nn.functional.scaled_dot_product_attention(*(x.double() for x in (q, k, v)))
    assert (op(q, k, v).double() - right).norm() < 1e-3 * right.norm(), s
"""


@pytest.mark.timeout(900)  # the search takes minutes if other test processes use the GPU at the same time
def test_short_softmax_search_finds_a_champion(gpu: Device, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evo", "search", "softmax", "--device", "cuda", "--problem", "rows=300,cols=4096"]
    command += ["--trials", str(TRIALS), "--seed", "1", "--db", str(tmp_path / "search.db"), "--json"]
    empty = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=empty, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    view = TypeAdapter(SearchView).validate_json(done.stdout)
    assert view.finished == TRIALS
    assert view.counts.get("wrong_answer", 0) == 0, view.counts
    assert view.device.architecture == gpu.architecture
    assert view.champion is not None, view.counts
    assert view.champion.time_us is not None


@pytest.mark.long
@pytest.mark.timeout(1200)  # the test runs five searches
def test_champions_of_five_sequence_lengths_are_exported_as_one_pytorch_operator(gpu: Device, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "quick.toml").write_text(QUICK)
    empty, database = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}, str(tmp_path / "search.db")
    search = ("search", "sdpa", "--device", "cuda", "--problem", "B=1,H=2,S=128,256,512,1024,2048,D=64,dtype=float16")
    brief = ("--trials", "4", "--seed", "1", "--policy", str(tmp_path / "quick.toml"))
    export = ("champion", "export", "1", "2", "3", "4", "5", "--to", str(tmp_path / "op"))
    for command in ((*search, *brief), export):
        subprocess.run([sys.executable, "-m", "evo", *command, "--db", database], env=empty, check=True, timeout=900)
    subprocess.run([sys.executable, "-c", ONE_OPERATOR], check=True, cwd=tmp_path / "op", timeout=300)
