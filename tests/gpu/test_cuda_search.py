"""A short search on a GPU, by the command that a user types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from evo.device import Device
from evo.view import SearchView

pytestmark = pytest.mark.gpu

TRIALS = 12


@pytest.mark.parametrize(("family", "problem"), [("softmax", "rows=300,cols=4096"), ("sdpa", "B=1,H=2,S=256,D=64")])
def test_a_short_search_ends_with_a_champion(gpu: Device, tmp_path: Path, family: str, problem: str) -> None:
    command = [sys.executable, "-m", "evo", "search", family, "--device", "cuda", "--problem", problem]
    command += ["--trials", str(TRIALS), "--seed", "1", "--db", str(tmp_path / "search.db"), "--json"]
    empty = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, env=empty, stdout=subprocess.PIPE, text=True, check=True, timeout=300)
    view = TypeAdapter(SearchView).validate_json(done.stdout)
    assert view.finished == TRIALS
    assert view.counts.get("wrong_answer", 0) == 0, view.counts
    assert view.device.architecture == gpu.architecture
    assert view.champion is not None, view.counts
    assert view.champion.time_us is not None
