"""Standby processes load the modules of a subcommand, and run it once they get its arguments."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from evo.cli.service.child import Child
from evo.cli.service.standby import Standby, StandbyProcess


@pytest.fixture
def process() -> Iterator[StandbyProcess]:
    process = StandbyProcess("worker")
    yield process
    process.end()


def test_standby_process_runs_the_subcommand_with_the_given_arguments(process: StandbyProcess, tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    log.write_text("earlier output\n")
    arguments = ("worker", "--url", "http://127.0.0.1:1", "--data", str(tmp_path), "--kind", "none")
    child = Child("worker", arguments, log, standby=process)
    assert child._process is process._process
    assert child._process.wait(60) == 2
    assert "--kind" in child.last_words()
    assert log.read_text().startswith("earlier output\n")


def test_standby_process_that_gets_no_arguments_ends_without_output(process: StandbyProcess, tmp_path: Path) -> None:
    assert process._process.stdin is not None
    process._process.stdin.close()
    assert process._process.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_new_process_is_started_if_the_standby_process_has_died(process: StandbyProcess, tmp_path: Path) -> None:
    process._process.kill()
    process._process.wait()
    child = Child("worker", ("worker", "--kind", "none", "--url", "u"), tmp_path / "log", standby=process)
    assert child._process is not process._process
    assert child._process.wait(60) == 2


def test_no_standby_process_is_started_while_a_service_runs_on_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.ownership.running_service", lambda _: object())
    assert Standby.of_a_search(tmp_path / "x.db").processes == {}


def test_unused_standby_processes_end_with_the_command(tmp_path: Path) -> None:
    started = Standby.of_a_search(tmp_path / "x.db")
    processes = [each._process for each in started.processes.values()]
    assert len(processes) == 2
    taken = started.take("serve")
    assert taken is not None
    assert started.take("serve") is None
    started.end()
    assert [each.poll() is None for each in processes] == [True, False]
    taken.end()
