"""Measures the overhead of a search from the times of its results: ``make bench-overhead``.

Each search has a new database, and its kernels take little time to verify and measure. The overhead is the time between
the first and the last result, minus the time for verifying and measuring. The worker reports the overhead too
(`overhead_ms`). The benchmark does not use this value, and so checks it. All searches draw the same random configs, so
every search after the first finds all of them compiled.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from db.engine.session import Database
from db.models import AttemptRow, JobRow, TrialRow
from evo.trial.results import EvaluateReport

POLICY = {"quick_samples": 5, "seeds": 1, "challenge_every": 100_000, "confirm_samples": 10, "confirm_processes": 1}
WARM_UP = 12
"""Number of first trials that are excluded, because the worker computes expected outputs and starts the runner then."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """Result of one search. `lost_ms` is the time per trial, excluding compilation, verification and measurement."""

    trials_per_s: float
    lost_ms: float
    told_median_ms: float
    told_mean_ms: float
    delivery_ms: float


def search(folder: Path, number: int, trials: int) -> Course:
    """Run a search with the user's command, and read the result from its database."""
    policy, database = folder / "policy.json", folder / f"{number}.db"
    policy.write_text(json.dumps(POLICY))
    budget = ["--trials", str(trials), "--minutes", "10", "--policy", str(policy), "--db", str(database), "--json"]
    kernel = ["softmax", "--problem", "rows=64,cols=64", "--strategy", "random"]
    command = [sys.executable, "-m", "evo", "search", *kernel, *budget]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return course(database)


def course(database: Path) -> Course:
    """Return the result of the last search in a database."""
    store = Database.open(database)
    try:
        with store.read() as session:
            query = session.query(TrialRow, AttemptRow).join(JobRow, JobRow.trial_id == TrialRow.id)
            query = query.join(AttemptRow, AttemptRow.job_id == JobRow.id).where(JobRow.kind == "evaluate")
            rows = query.where(AttemptRow.state == "done").order_by(AttemptRow.ended_at).all()[WARM_UP:]
    finally:
        store.close()
    reports = [attempt.result for _, attempt in rows[1:] if isinstance(attempt.result, EvaluateReport)]
    worked_s = sum(each.stages.compile_s + each.stages.verify_s + each.stages.measure_s for each in reports)
    first, last = rows[0][1].ended_at, rows[-1][1].ended_at
    assert first is not None and last is not None, "an attempt that is done has an end time"
    passed_s = (last - first).total_seconds()
    told_ms = [trial.overhead_ms for trial, _ in rows if trial.overhead_ms is not None]
    return Course(
        trials_per_s=len(reports) / passed_s,
        lost_ms=1e3 * (passed_s - worked_s) / len(reports),
        told_median_ms=statistics.median(told_ms),
        told_mean_ms=statistics.fmean(told_ms),
        delivery_ms=statistics.median(trial.delivery_ms for trial, _ in rows if trial.delivery_ms is not None),
    )


def main(arguments: list[str]) -> None:
    """Print a line for each search. The first search only fills the cache."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=150, help="number of trials per search (default: %(default)s)")
    parser.add_argument(
        "--searches", type=int, default=3, help="number of searches after the first search (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as name:
        for number in range(options.searches + 1):
            found = search(Path(name), number, options.trials)
            if number > 0:
                told = f"{found.told_mean_ms:.1f} ms (median {found.told_median_ms:.1f})"
                print(
                    f"{found.trials_per_s:.1f} trials/s, overhead {found.lost_ms:.1f} ms per trial; "
                    f"the worker reports {told}, delivery {found.delivery_ms:.1f} ms",
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1:])
