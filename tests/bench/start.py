"""Measures the time from the command to the first measured candidate, by stage: ``make bench-start``.

Each search runs with the user's command and a new database, and ends once its first candidate is timed. The first
search of a problem starts with an empty cache (*cold*), later searches use this cache (*warm*). Modules are compiled to
bytecode in advance, as by an installation.
"""

import argparse
import compileall
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
from sqlalchemy import func

from db.engine.session import Database
from db.models import AttemptRow, JobRow, SearchRow, WorkerRow
from evo.trial.outcome import Measured
from evo.trial.results import BaselineReport, EvaluateReport
from tests.bench.strategy.tables import table

PROBLEMS = {
    "cuda": (
        "sdpa:B=2,H=8,S=512,D=64",
        "sdpa:B=4,H=16,S=2048,D=64",
        "sdpa:B=4,H=16,S=4096,D=128",
        "gemm:M=4096,N=4096,K=4096",
        "softmax:rows=2048,cols=50257",
        "rmsnorm:rows=8192,cols=5120",
    ),
    "cpu": (
        "sdpa:B=2,H=8,S=128,D=64",
        "softmax:rows=4096,cols=1024",
        "gemm:M=256,N=256,K=256",
    ),
}
HEADER = (
    "worker",
    "space",
    "lease",
    "baselines",
    "build",
    "verify",
    "measure",
    "other",
    "first candidate",
    "processor",
    "failed before",
)
LOOK_S = 0.1
LONGEST_S = 180.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """Stages of one start in seconds, in chronological order.

    Attributes:
        worker_s: time from the command until the worker has registered.
        space_s: time until the search is stored, including the enumeration of its space.
        lease_s: time until the worker gets its first job.
        baselines_s: time of the baselines that ran before the first candidate.
        build_s, verify_s, measure_s: times of the first measured candidate. `verify_s` includes the reference results.
        other_s: remaining time: waiting for builds, failed candidates, and delivery.
        total_s: time from the command until the first candidate's time is stored.
        processor_s: processor time of the command and all its child processes until then. On a busy machine, it is
            more informative than the elapsed time. 0 if it was not measured.
        failed: number of candidates that ended without a time before the first measured candidate.
    """

    worker_s: float
    space_s: float
    lease_s: float
    baselines_s: float
    build_s: float
    verify_s: float
    measure_s: float
    other_s: float
    total_s: float
    processor_s: float = 0.0
    failed: int


class NoCandidate(RuntimeError):
    """The search measured no candidate in time. The message states the reason."""


def timed(family: str, problem: str, device: str, folder: Path, cache: Path) -> Start:
    """Run one search until its first candidate is measured.

    Raises:
        NoCandidate: no candidate was measured within `LONGEST_S`, or the command ended before.
    """
    database, log = folder / "start.db", folder / "output.txt"
    command = [sys.executable, "-m", "evo", "search", family, "--problem", problem, "--device", device]
    command += ["--minutes", "3", "--db", str(database), "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(cache)}
    begun = datetime.now(UTC)
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        deadline_s = time.monotonic() + LONGEST_S
        while not _measured(database):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise NoCandidate(log.read_text(errors="replace").strip()[-500:] or "no candidate was measured")
            time.sleep(LOOK_S)
        spent_s = processor_s(psutil.Process(process.pid))
    finally:
        _end(process)
    return replace(stages(database, begun), processor_s=spent_s)


def processor_s(process: psutil.Process) -> float:
    """Return the processor time in seconds of a process and its descendants, including those that have ended."""
    total_s = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total_s += sum(each.cpu_times()[:4])  # user and system time of the process and of its ended children
    return total_s


def _compile_modules() -> None:
    """Compile all modules of this project to bytecode next to their sources."""
    root = Path(__file__).parents[2]
    for package in ("evo", "api", "db", "templates", "workers"):
        compileall.compile_dir(root / package, quiet=2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Cancel the search, like pressing Ctrl-C twice."""
    for _ in range(2):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _measured(database: Path) -> bool:
    """Return True if a candidate was timed. The database is opened only for reading."""
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM trials WHERE time_us IS NOT NULL LIMIT 1").fetchone() is not None
    except sqlite3.Error:
        return False  # the service is still creating the database


def stages(database: Path, begun: datetime) -> Start:
    """Return the stages of the search in a database. Its command began at `begun`.

    Raises:
        NoCandidate: the search measured no candidate.
    """
    store = Database.open(database)
    try:
        with store.read() as session:
            search = session.query(SearchRow).one()
            registered = session.query(func.min(WorkerRow.registered_at)).scalar()
            query = session.query(AttemptRow).join(JobRow).where(AttemptRow.state == "done")
            attempts = query.order_by(AttemptRow.ended_at).all()
            return split(begun, registered, search, attempts)
    finally:
        store.close()


def confirmations_s(database: Path) -> list[float]:
    """Return the seconds from lease to result of each confirmation."""
    store = Database.open(database)
    try:
        with store.read() as session:
            query = session.query(AttemptRow).join(JobRow).where(AttemptRow.state == "done", JobRow.kind == "confirm")
            attempts = query.order_by(AttemptRow.ended_at).all()
    finally:
        store.close()
    return [(each.ended_at - each.granted_at).total_seconds() for each in attempts if each.ended_at is not None]


def split(begun: datetime, registered: datetime, search: SearchRow, attempts: Sequence[AttemptRow]) -> Start:
    reports = [attempt.result for attempt in attempts]
    place = next((place for place, report in enumerate(reports) if _is_measured(report)), None)
    if place is None:
        raise NoCandidate("no candidate was measured")
    first, ended_at = reports[place], attempts[place].ended_at
    assert isinstance(first, EvaluateReport) and ended_at is not None and search.started_at is not None
    earlier = reports[:place]
    baselines = [each.stages for each in earlier if isinstance(each, BaselineReport)]
    parts = {
        "worker_s": (registered - begun).total_seconds(),
        "space_s": (search.created_at - max(registered, begun)).total_seconds(),
        "lease_s": (search.started_at - search.created_at).total_seconds(),
        "baselines_s": sum(each.measure_s + each.verify_s for each in baselines),
        "build_s": first.stages.render_s + first.stages.compile_s,
        "verify_s": first.stages.verify_s,
        "measure_s": first.stages.measure_s,
    }
    total_s = (ended_at - begun).total_seconds()
    failed = sum(isinstance(each, EvaluateReport) for each in earlier)
    return Start(**parts, other_s=total_s - sum(parts.values()), total_s=total_s, failed=failed)


def _is_measured(report: object) -> bool:
    return isinstance(report, EvaluateReport) and isinstance(report.outcome, Measured)


def main(arguments: Sequence[str]) -> int:
    """Print a table. Return status 1 if a search measured no candidate."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.start", description=__doc__)
    parser.add_argument(
        "problems", nargs="*", metavar="FAMILY:PROBLEM", help="problems to search (default: a few for each device)"
    )
    parser.add_argument("--device", choices=tuple(PROBLEMS), default="cpu")
    parser.add_argument(
        "--warm", type=int, default=1, metavar="N", help="number of warm starts after the cold start (default: 1)"
    )
    options = parser.parse_args(arguments)
    _compile_modules()
    rows, failures = [], 0
    for given in options.problems or PROBLEMS[options.device]:
        family, _, problem = given.partition(":")
        with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as name:
            for number in range(1 + options.warm):
                folder = Path(name) / str(number)
                folder.mkdir()
                label = f"{given} {'warm' if number else 'cold'}"
                try:
                    found = timed(family, problem, options.device, folder, Path(name) / "cache")
                except NoCandidate as error:
                    failures += 1
                    print(f"{label}: {error}", file=sys.stderr, flush=True)
                    break
                rows.append(
                    [label, *(f"{value:.2f}" for value in list(asdict(found).values())[:-1]), str(found.failed)]
                )
                stages = ", ".join(f"{name} {value}" for name, value in zip(HEADER[:-3], rows[-1][1:-3], strict=True))
                spent = f"{found.processor_s:.2f} s of processor time"
                print(f"{label}: {found.total_s:.2f} s ({stages}), {spent}", flush=True)
    print(table(["seconds", *HEADER], rows))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
