"""The start benchmark splits the time until the first measured candidate into stages."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from db.models import AttemptRow, SearchRow
from evo.trial.outcome import LaunchFailed, Measured
from evo.trial.results import BaselineReport, EvaluateReport, Report
from evo.trial.results.confirmation import Stages
from evo.trial.timing import Timing
from tests.bench.start import processor_s, split

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGUN + timedelta(seconds=seconds)


def attempt(ended_s: float, report: Report) -> AttemptRow:
    return AttemptRow(ended_at=after(ended_s), result=report)


def test_startup_stages_add_up_to_the_time_until_the_first_measurement() -> None:
    measured = Measured(timing=Timing(samples_us=(3.0,)))
    attempts = [
        attempt(5.0, BaselineReport(timings={}, stages=Stages(verify_s=0.5, measure_s=1.0))),
        attempt(6.0, EvaluateReport(outcome=LaunchFailed(reason="no"))),
        attempt(
            9.0,
            EvaluateReport(outcome=measured, stages=Stages(render_s=0.25, compile_s=0.75, verify_s=1.5, measure_s=0.5)),
        ),
        attempt(9.5, EvaluateReport(outcome=measured)),
    ]
    search = SearchRow(created_at=after(2.5), started_at=after(2.75))
    found = split(BEGUN, after(2.0), search, attempts)
    assert (found.worker_s, found.space_s, found.lease_s) == (2.0, 0.5, 0.25)
    assert (found.baselines_s, found.build_s, found.verify_s, found.measure_s) == (1.5, 1.0, 1.5, 0.5)
    assert found.total_s == 9.0
    assert found.other_s == pytest.approx(1.75)
    assert found.failed == 1


@pytest.mark.slow
def test_processor_time_includes_running_and_ended_child_processes() -> None:
    """The child burns 0.2 s in a grandchild that ends, and 0.2 s in itself; then it waits."""
    burn = "import time\nwhile time.process_time() < 0.2: pass\n"
    code = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n{burn}print('burnt', flush=True)\n"
    )
    command = [sys.executable, "-c", code + "sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"burnt\n"
        assert processor_s(psutil.Process(child.pid)) > 0.3
        child.kill()
