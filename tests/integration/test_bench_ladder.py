"""The ladder benchmark times valid optimisation steps together, and has rows for failed and refused steps."""

import shutil
from pathlib import Path

import pytest

from tests.bench.ladder import main
from tests.integration.workbench import FAMILIES

LADDER = """
[[steps]]
name = "first"
change = { FAULT = "none", UNROLL = 1 }

[[steps]]
name = "a mistake"
change = { FAULT = "nan" }
aside = true

[[steps]]
name = "second"
change = { UNROLL = 4 }
on_l4_us = 12
"""


@pytest.mark.long
def test_ladder_benchmark_prints_a_row_for_every_optimisation_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    family = tmp_path / "faulty"
    shutil.copytree(FAMILIES / "faulty", family)
    (family / "ladder.toml").write_text(LADDER, encoding="utf-8")
    status = main(["--family", str(family), "--device", "cpu", "--problem", "N=4096", "--rounds", "5"])
    printed = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    first, mistake, second, *baselines = rows[2:]
    assert status == 1, "a step with wrong results must give a failure status"
    assert first[:2] == ["1", "first"]
    assert mistake[:3] == ["2, aside", "a mistake", "wrong answer"]
    assert second[:2] + second[-1:] == ["3", "second", "12"]
    assert float(first[2].replace(",", "")) > 0
    assert "…" in second[4] and not first[4] and not mistake[4], (
        "a gain must be relative to the step on which the step builds"
    )
    left_out = [line.split(": ")[1] for line in printed.splitlines() if line.startswith("Not run: ")]
    assert {row[0] for row in baselines} <= {"baseline"}
    told = {*(row[1] for row in baselines), *left_out}
    assert told == {"numpy", "wrong", "absent"}, "a baseline far slower than every step must be reported as not run"
    assert "wrong answer: a mistake: " in printed


@pytest.mark.slow
def test_ladder_benchmark_refuses_a_family_without_ladder_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--family", "softmax", "--device", "cpu", "--rounds", "1"]) == 2
    assert "softmax has no file ladder.toml" in capsys.readouterr().err
