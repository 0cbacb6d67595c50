"""Parallel contests use separate GPUs and cores, and contests are omitted for lack of time."""

import subprocess
import sys

import pytest

from tests.bench import side_by_side
from tests.bench.gpu import MATCHES
from tests.bench.side_by_side import Place, Queue, hold, places


def test_parallel_contests_divide_the_cores_evenly_among_gpus() -> None:
    assert places(["0", "1"], range(5)) == [Place("0", frozenset({0, 1})), Place("1", frozenset({2, 3}))]
    assert places([], range(5)) == []


def test_contest_queue_yields_the_longest_contest_that_fits_the_time_left() -> None:
    now = [0.0]
    queue = Queue({0: 10.0, 1: 30.0, 2: 20.0, 3: 100.0}, ends_at=50.0, clock=lambda: now[0])
    taken = iter(queue)
    assert next(taken) == 1
    now[0] = 35.0
    assert next(taken) == 0
    assert list(taken) == []
    assert queue.left == [3, 2]


def test_contest_process_uses_only_its_cores_and_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], os.sched_getaffinity(0)); sys.exit(3)"
    real = subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda _, **more: real([sys.executable, "-c", told], **more))
    assert hold(Place("7", frozenset({0})), 2, []) == 3
    assert capsys.readouterr().out == "7 {0}\n"


def test_failed_and_omitted_contests_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = []

    def noted(place: Place, number: int, passed_on: list[str]) -> int:
        held.append((place.gpu, number, passed_on))
        return int(number == 2)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    monkeypatch.setattr(side_by_side, "hold", noted)
    arguments = ["2", "4", "--minutes", "1", "--sample", "4"]
    assert side_by_side.main([*arguments, "--within", "1000"]) == 1
    assert held == [("5", number, ["--sample", "4", "--minutes", "1.0"]) for number in (2, 4)]
    assert f"failed or missed a required result: contest 2, sdpa {MATCHES[2].problem}" in capsys.readouterr().err
    assert side_by_side.main([*arguments, "--within", "100"]) == 1
    assert "not run: contest 4" in capsys.readouterr().err
    assert len(held) == 2
