"""The whole strategy benchmark runs its searches in separate processes."""

import gzip
import json
from pathlib import Path

import pytest

from tests.bench.strategy.__main__ import main as bench
from tests.data import synthetic


@pytest.mark.long
def test_second_strategy_benchmark_reuses_stored_runs_and_gives_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.json.gz").write_bytes(gzip.compress(synthetic.FILE.read_bytes()))
    arguments = ["--spaces", str(tmp_path), "--archive", str(tmp_path / "runs"), "--to", str(tmp_path), "--jobs", "1"]
    arguments += ["--seeds", "2", "--question", "evaluations", "--contestant", "random"]
    assert bench(arguments) in (0, 1)
    first = capsys.readouterr().out
    monkeypatch.setattr("multiprocessing.get_context", lambda *_: pytest.fail("played again"))
    bench(arguments)
    assert capsys.readouterr().out.splitlines()[1:] == first.splitlines()[1:]
    assert "| random " in first
    assert "### Comparison by time" in first
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert set(figures["evaluations"]) == {"portfolio", "random"}
    assert figures["time"]["portfolio"]["alone"]["estimate"] <= 1
