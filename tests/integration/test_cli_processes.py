"""Searches can be attached, detached, interrupted, killed and resumed.

The searches use a recorded space, so that no process waits for a device. The space is large enough for every test.
"""

import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from db.engine.ownership import running_service
from evo.client import Client, ServiceUnreachable
from evo.messages.view import SearchView
from tests.integration.commands import CommandLine, Running, recording, wait_until
from tests.integration.workbench import cpu
from tests.processes import ended, running_with
from tests.tiers import one_in
from workers.system.device_lock import exclusive

SAXPY = str(Path(__file__).parents[2] / "docs" / "guides" / "examples" / "saxpy")
MIDDLE = re.compile(r": [0-9,]{2,} trials")
LONG = ("search", "./large.json", "--minutes", "60", "--strategy", "random")


@pytest.fixture
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    line = CommandLine.fresh(tmp_path_factory)
    recording(line.home / "large.json", side=100)
    return line


@contextmanager
def running(line: CommandLine, *arguments: str) -> Iterator[Running]:
    """Start a search in the foreground, and yield its process once the search is in progress."""
    command = line.start(*arguments)
    try:
        wait_until(lambda: command.process.poll() is not None or MIDDLE.search(command.out), "two trials ended")
        assert command.process.poll() is None, command.wait()
        yield command
    finally:
        command.kill()


def shown(line: CommandLine) -> SearchView | None:
    """Return the first search as the running service shows it; None without a service or search."""
    service = running_service(line.database)
    if service is None or service.url is None:
        return None
    try:
        with Client(service.url, attempts=1) as client:
            return next((view for view in client.searches().items if view.id == 1), None)
    except ServiceUnreachable:
        return None


def finished_trials(line: CommandLine) -> int:
    view = shown(line)
    return 0 if view is None else view.finished


def state(line: CommandLine) -> str | None:
    view = shown(line)
    return None if view is None else view.state


def gone(processes: list[psutil.Process]) -> bool:
    return all(ended(each) for each in processes)


def children(command: Running, name: str) -> list[psutil.Process]:
    """Return the running child processes of a command that have this name."""
    return running_with(name, command.family)


def child(command: Running, name: str) -> psutil.Process:
    return children(command, name)[0]


@pytest.mark.slow
def test_ctrl_c_stops_the_search_and_prints_its_report(line: CommandLine) -> None:
    with running(line, *LONG) as search:
        children = search.family
        search.interrupt()
        ended = search.wait()
    assert (ended.code, ended.err) == (0, "")
    assert "Stopping: running trials finish, then the report follows. A second Ctrl-C cancels the search." in ended.out
    assert "Stopped early" in ended.out
    assert re.search(
        r"kernel-evo champion show \d", ended.out
    )  # on a busy machine, the search may promote twice before Ctrl-C
    assert gone(children)


@pytest.mark.slow
def test_second_ctrl_c_cancels_the_search(line: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device is locked, so that no job ends before the search is cancelled."""
    monkeypatch.setenv("TMPDIR", line._own["TMPDIR"])
    monkeypatch.setattr(tempfile, "tempdir", None)
    with exclusive(cpu(line.cache / "kernel-evo").uuid):
        search = line.start("search", SAXPY, "--minutes", "60")
        try:
            wait_until(lambda: "budget" in search.out, "the search runs")
            search.interrupt()
            wait_until(lambda: state(line) == "stopping", "the service received the first Ctrl-C")
            search.interrupt()
            ended = search.wait()
        finally:
            search.kill()
    assert ended.code == 130
    assert "Cancelled." in ended.out


@pytest.mark.long
def test_killed_search_leaves_no_process_and_can_be_resumed(line: CommandLine) -> None:
    with running(line, *LONG) as search:
        children = search.family
        search.kill()
        wait_until(lambda: gone(children), "the child processes ended")
    with running(line, "search", "--resume", "1") as resumed:
        resumed.interrupt()
        ended = resumed.wait()
    assert (ended.code, ended.err) == (0, "")
    assert "Search 1  large" in ended.out
    trials = line.run("trials", "1", "--sort", "number", "--limit", "10000", "--json").json
    assert [trial["number"] for trial in trials] == list(range(len(trials)))
    assert len({str(trial["config"]) for trial in trials}) == len(trials)


@pytest.mark.long
@pytest.mark.parametrize("name", one_in(2, ["serve", "worker"]))
def test_killed_service_or_worker_of_a_search_is_restarted(line: CommandLine, name: str) -> None:
    with running(line, *LONG) as search:
        victim = child(search, name)
        victim.kill()
        wait_until(lambda: any(each.pid != victim.pid for each in children(search, name)), "another process started")
        before = finished_trials(line)
        wait_until(lambda: finished_trials(line) >= before + 2, "the search continued")
        search.interrupt()
        ended = search.wait()
    assert (ended.code, ended.err) == (0, "")
    assert "Stopped early" in ended.out


@pytest.mark.long
def test_second_terminal_continues_the_search_after_the_first_is_killed(line: CommandLine) -> None:
    with running(line, *LONG) as first, running(line, "search", "--resume", "1") as second:
        assert child(first, "serve")
        assert second.family == [], "the second command must not start a service or worker"
        first.kill()
        wait_until(lambda: second.family, "the second command started a service and a worker")
        before = finished_trials(line)
        wait_until(lambda: finished_trials(line) >= before + 2, "the search continued")
        second.interrupt()
        ended = second.wait()
    assert (ended.code, ended.err) == (0, "")
    assert "Stopped early" in ended.out


@pytest.mark.slow
def test_detached_search_runs_in_the_background(line: CommandLine) -> None:
    started = line.run_apart(*LONG, "--detach")
    assert (started.code, started.err) == (0, "")
    assert "Search 1 runs in the background" in started.out
    assert f"{line.database.name}.search-1.log" in started.out
    assert "kernel-evo watch 1" in started.out
    service = running_service(line.database)
    assert service is not None and service.url is not None
    background = psutil.Process(service.pid).parent()
    assert background is not None
    family = [background, *background.children(recursive=True)]
    try:
        assert "paused" in line.run("pause", "1").out
        assert "running" in line.run("resume", "1").out
        assert line.run(*LONG, "--detach", "--json", "--url", service.url).json["id"] == 2
        with running(line, "watch", "1") as watching:
            assert line.run("stop", "1", "--json").json["state"] in ("stopping", "finished")
            ended = watching.wait()
        assert ended.code == 0
        assert "Stopped early" in ended.out
        wait_until(lambda: gone(family), "the background processes ended with their search")
    finally:
        for each in family:
            if each.is_running():
                each.kill()


@pytest.mark.slow
def test_failed_detached_start_prints_the_error(line: CommandLine) -> None:
    refused = line.run_apart("search", SAXPY, "--problem", "N=0", "--detach")
    assert refused.code == 2
    assert refused.err.startswith("Error: --problem N: 0 is out of range")


@pytest.mark.slow
def test_failed_detached_start_prints_only_its_own_error(line: CommandLine) -> None:
    others = [line.database.with_name(f"{line.database.name}.{each}.log") for each in ("search", "search-1", "worker")]
    for each in others:
        each.touch()
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(0.01):
            for each in others:
                with each.open("a") as log:
                    log.write("progress of another search\n")

    reporting = threading.Thread(target=report)
    reporting.start()
    try:
        refused = line.run_apart("search", SAXPY, "--policy", "absent", "--detach")
    finally:
        ended.set()
        reporting.join()
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("Error: --policy: there is no `absent`") and refused.err.count("\n") == 1
    assert {each.name for each in line.database.parent.glob("*.log")} == {each.name for each in others}
