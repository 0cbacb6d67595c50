"""A search whose processes are killed at random times continues with `--resume` and loses no trial."""

import random
import sqlite3
import time
from pathlib import Path

import psutil
import pytest

from tests.integration.commands import CommandLine, wait_until
from tests.processes import arguments_of

FAMILY = Path(__file__).resolve().parents[2] / "docs" / "guides" / "examples" / "saxpy"
TARGETS = ("command", "serve", "worker", "runner", "all")
UNFINISHED = "select count(*) from searches where state in ('running', 'stopping')"


@pytest.fixture
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    return CommandLine.fresh(tmp_path_factory)


@pytest.mark.long
@pytest.mark.parametrize("rounds", [3])
def test_search_with_killed_processes_neither_loses_nor_repeats_trials(line: CommandLine, rounds: int) -> None:
    """Kill each kind of process once per round, in random order."""
    rng = random.Random(20)
    targets = rng.sample(TARGETS * rounds, k=len(TARGETS) * rounds)
    search = line.start("search", str(FAMILY), "--seed", "1", "--strategy", "random", "--trials", "1000")
    try:
        wait_until(
            lambda: line.database.exists() and ask(line, "select count(*) from trials")[0][0] > 0, "the search began"
        )
        while targets and ask(line, UNFINISHED)[0][0]:
            if search.process.poll() is not None:
                search.wait()
                search = line.start("search", "--resume", "1")
            time.sleep(rng.uniform(0.0, 1.5))
            target = targets.pop()
            if not kill(search.process.pid, target):
                targets.insert(0, target)
    finally:
        search.kill()
    finished = ask(line, UNFINISHED)[0][0] == 0
    if not finished:
        resumed = line.run_apart("search", "--resume", "1")
        assert resumed.code == 0, resumed.err
    assert_nothing_lost(line)
    assert not targets, f"the search ended before these were killed: {targets}"


def kill(root: int, target: str) -> bool:
    """Kill the command's processes of one kind, or all of them; return True if a process was killed."""
    try:
        family = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.NoSuchProcess:
        return False
    chosen = [each for each in family if target in ("all", role(each))]
    for each in chosen:
        try:
            each.kill()
        except psutil.NoSuchProcess:
            continue
    return bool(chosen)


def role(process: psutil.Process) -> str | None:
    words = arguments_of(process)
    if "workers.runner.guardian" in words:
        return "runner"
    return next((word for word in ("serve", "worker") if word in words), "command" if "evo" in words else None)


def ask(line: CommandLine, query: str) -> list[tuple[int, ...]]:
    with sqlite3.connect(f"file:{line.database}?mode=ro", uri=True, timeout=30) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:  # the first service has not created the tables yet
            assert "no such table" in str(error)
            return [(0,)]


def assert_nothing_lost(line: CommandLine) -> None:
    trials = ask(line, "select number, finished_seq, outcome_kind from trials order by number")
    count = len(trials)
    assert [number for number, _, _ in trials] == list(range(count))
    assert sorted(position for _, position, _ in trials) == list(range(count)), "every trial ended exactly once"
    assert all(kind is not None for _, _, kind in trials)
    twice = "select job_id from attempts where state = 'done' group by job_id having count(*) > 1"
    assert ask(line, twice) == []
    assert ask(line, "select count(*) from attempts where state = 'live'") == [(0,)]
    assert ask(line, "select count(*) from jobs where state in ('queued', 'leased')") == [(0,)]
    assert ask(line, "select count(distinct config_key) from trials") == [(count,)]
