"""If a process ends before it answers, the error contains the last line of its output."""

import sys
from pathlib import Path

import pytest

from workers.system import line_process
from workers.system.line_process import LineProcess
from workers.system.sandbox import sandbox_here

FAILING = "import sys; sys.stdin.readline(); print('reading', file=sys.stderr); raise ImportError('no grain here')"


@pytest.mark.parametrize("confined", [False, True])
def test_error_for_an_ended_process_contains_its_last_output_line(
    confined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if confined and not sandbox_here():
        pytest.skip("this machine has no sandbox for processes")
    monkeypatch.setattr(line_process, "_command", lambda _: (sys.executable, "-c", FAILING))
    answer = LineProcess("", reads=() if confined else None).ask({}, 300.0)
    assert answer == "ended with status 1 before it was finished: ImportError: no grain here"


def test_long_output_of_an_ended_process_is_truncated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = "import sys; sys.stdin.readline(); sys.stderr.write('x' * 10_000_000); sys.exit(3)"
    monkeypatch.setattr(line_process, "_command", lambda _: (sys.executable, "-c", program))
    answer = LineProcess("", reads=None).ask({}, 300.0)
    assert isinstance(answer, str)
    assert answer.startswith("ended with status 3")
    assert len(answer) < 5000
