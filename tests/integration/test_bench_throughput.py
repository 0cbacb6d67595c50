"""The throughput benchmark prints each rate once it is known, even if the other measurement fails."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from evo.device.estimate.target import known
from evo.trial import Config
from evo.trial.objective import Objective
from templates.registry import find
from tests.bench import throughput

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


TAKES_TURNS = """
import pathlib, sys
file = pathlib.Path({place!r})
file.write_text(file.read_text() + "x" if file.exists() else "x")
print({rates}[len(file.read_text()) - 1])
"""


def run(monkeypatch: pytest.MonkeyPatch, theirs: str, *more: str) -> int:
    """Run the benchmark with a fake search and the program `theirs` for Kernel Tuner, and return its exit status."""
    ends = [SimpleNamespace(finished_at=MOMENT + timedelta(seconds=each / 10)) for each in range(91)]
    monkeypatch.setattr(throughput, "search", lambda *_: None)
    monkeypatch.setattr(throughput, "trials_of", lambda *_: ends)
    monkeypatch.setattr(throughput, "KERNEL_TUNER", (sys.executable, "-S", "-c", theirs))
    return throughput.main(["--minutes", "0.01", *more])


def test_throughput_bench_prints_both_rates_and_their_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "print('device: noise of its own'); print(100.0)") == 0
    printed = capsys.readouterr().out
    assert printed.count("| Kernel Tuner |") == 2  # the benchmark runs two turns
    assert "| kernel-evo search | 600 |" in printed and "| Kernel Tuner | 100 |" in printed
    assert printed.rstrip().endswith("\n6.0 times as many configs per minute.")


@pytest.mark.parametrize(("second", "told"), [(300.0, (0, "3.0")), (320.0, (1, "2.9"))])
def test_throughput_ratio_combines_the_rates_of_all_rounds(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    second: float,
    told: tuple[int, str],
) -> None:
    status = run(monkeypatch, TAKES_TURNS.format(place=str(tmp_path / "turns"), rates=[100.0, second]))
    ratio = capsys.readouterr().out.split("\n")[-2].removesuffix(" times as many configs per minute.")
    assert (status, ratio) == told


def test_throughput_bench_fails_if_the_rate_of_any_round_is_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = iter([(600.0, 119.0), (600.0, 500.0)])
    monkeypatch.setattr(throughput, "_ours", lambda *_: next(rates))
    assert run(monkeypatch, "print(100.0)") == 1


def test_throughput_bench_refuses_zero_rounds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "", "--turns", "0") == 2
    assert "--turns must be at least 1, not 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("theirs", "why"),
    [
        ("print('noise'); print('CUDAError: illegal address'); raise SystemExit(1)", "status 1: CUDAError: illegal ad"),
        ("import os; os.kill(os.getpid(), 9)", "status -9: no output"),
        ("print(0.0)", "tried no config"),
        ("while True: pass", "was stopped after"),
    ],
)
def test_rate_of_kernel_evo_is_printed_even_if_kernel_tuner_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], theirs: str, why: str
) -> None:
    if "while" in theirs:
        monkeypatch.setattr(throughput, "GRACE_S", 0)
    assert run(monkeypatch, theirs) == 1
    printed = capsys.readouterr()
    assert "| kernel-evo search | " in printed.out
    assert why in printed.err


def test_throughput_bench_prints_the_error_of_kernel_tuner_as_its_last_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(problem: str, seconds: float) -> float:
        raise RuntimeError(f"no GPU\nfor {problem}")

    monkeypatch.setattr(throughput, "_kernel_tuner", fails)
    with pytest.raises(RuntimeError):
        throughput.main(["--kernel-tuner", "--problem", "B=2"])
    assert capsys.readouterr().out.splitlines()[-1] == "RuntimeError: no GPU for B=2"


@pytest.mark.parametrize(
    ("change", "launches"),
    [
        ({}, True),
        ({"PRODUCTS": "wgmma"}, False),
        ({"COPY": "tma", "PRODUCER_WARPS": 1, "COPY_TOGETHER": False}, False),
    ],
)
def test_kernel_tuner_gets_only_launchable_configs(change: Config, launches: bool) -> None:
    family, gpu = find("sdpa").family, known("sm_90")
    problem = family.problem("B=2,H=8,S=512,D=64", "cuda")
    default = {each.name: each.values[each.default_index] for each in family.implementation("cuda").tunables}
    candidate = family.candidate({**default, **change}, problem, gpu, Objective())
    assert throughput.plain(candidate, gpu) is launches
