"""The runner process limits its own resources, ends with its parent, and is reported if it dies."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from evo.device import Device
from evo.trial.objective import Objective
from templates.registry import find
from tests.integration.workbench import cpu, faulty, terms
from tests.measured import measured
from workers.backends.cpu.compiler import find_compiler
from workers.build.families import Assignment, Families
from workers.runner.child import Child, ChildDiedError, ChildTimeoutError
from workers.runner.plan import open_request
from workers.runner.protocol import Compare, Measure, Open, Prove, Ready, Reply, Trouble, Unfit


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def device(folder: Path) -> Device:
    return cpu(folder)


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child(threads=1)
    yield child
    child.kill()


def prove(child: Child, device: Device, folder: Path) -> Reply:
    return child.ask(Prove(device=device, objective=Objective(), folder=str(folder)), 60)


def runner_of(child: Child) -> psutil.Process:
    """Return the process below the guardian."""
    (runner,) = psutil.Process(child.pid).children()
    return runner


def request(tmp_path: Path, device: Device, folder: Path, **changes: Any) -> Open:
    work = Assignment(terms=terms(device, faulty(), **changes), copy=Families(tmp_path).add(faulty()))
    return open_request(work, folder)


def test_runner_has_its_own_process_session(child: Child, tmp_path: Path, device: Device, folder: Path) -> None:
    assert prove(child, device, folder) == Ready()
    assert child.ask(request(tmp_path, device, folder), 60) == Ready()
    assert os.getsid(runner_of(child).pid) == child.pid != os.getsid(0)


def test_runner_leaves_no_temporary_folder(
    tmp_path: Path, device: Device, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    child = Child(threads=1)
    assert prove(child, device, folder) == Ready()
    assert list(tmp_path.glob("kernel-evo-scratch-*"))
    child.kill()
    assert list(tmp_path.glob("kernel-evo-scratch-*")) == []


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system cannot pin processes to cores")
def test_runner_is_pinned_to_one_core_per_thread(child: Child, tmp_path: Path, device: Device, folder: Path) -> None:
    prove(child, device, folder)
    assert len(os.sched_getaffinity(runner_of(child).pid)) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows the limits of another process")
def test_runner_limits_core_dumps_memory_and_file_size(
    child: Child, tmp_path: Path, device: Device, folder: Path
) -> None:
    prove(child, device, folder)
    child.ask(request(tmp_path, device, folder), 60)
    process = runner_of(child)
    assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0)
    assert process.memory_info().vms < process.rlimit(psutil.RLIMIT_AS)[0] <= process.memory_info().vms + (5 << 30)
    assert process.rlimit(psutil.RLIMIT_FSIZE)[0] == 4 << 30


def test_numeric_libraries_use_the_thread_count_of_the_runner() -> None:
    child = Child(threads=3)
    environment: dict[str, str] = {}
    while "OMP_NUM_THREADS" not in environment:  # the environment is empty while the program is being loaded
        environment = psutil.Process(child.pid).environ()
    child.kill()
    assert {environment[name] for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")} == {"3"}


def test_device_is_unfit_if_a_known_kernel_gives_a_wrong_result(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\n[ -f kernel.c ] && sed -i s/memcpy/memcmp/ kernel.c\nexec {find_compiler()[0]} $@")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    child = Child(threads=1)
    reply = prove(child, device, tmp_path)
    child.kill()
    assert isinstance(reply, Unfit)
    assert "a known-good kernel got" in reply.reason


@pytest.mark.slow
def test_runner_refuses_a_measure_request_before_an_open_request(child: Child) -> None:
    assert isinstance(child.ask(Measure(candidate="a", samples=1, other_samples=1), 60), Trouble)


def test_runner_that_misses_its_deadline_is_ended(child: Child, device: Device, folder: Path) -> None:
    prove(child, device, folder)
    runner_of(child).suspend()
    with pytest.raises(ChildTimeoutError, match=r"no reply within 0\.2 s"):
        child.ask(Compare(series={}, rounds=1, baselines=False, budget_s=1), 0.2)
    assert not psutil.pid_exists(child.pid)


@pytest.mark.parametrize("guardian", [False, True])
def test_request_to_a_killed_runner_or_guardian_raises_child_died(
    child: Child, device: Device, folder: Path, guardian: bool
) -> None:
    prove(child, device, folder)
    runner = runner_of(child)
    os.kill(child.pid if guardian else runner.pid, signal.SIGKILL)
    psutil.wait_procs([runner], timeout=60)
    with pytest.raises(ChildDiedError, match="killed by SIGKILL"):
        child.ask(Measure(candidate="a", samples=1, other_samples=1), 60)
    assert not child.usable


def test_interrupted_runner_is_unusable_immediately(child: Child) -> None:
    assert child.usable
    child.interrupt()
    assert not child.usable


def test_error_for_inputs_larger_than_memory_names_function_and_line(
    child: Child, tmp_path: Path, device: Device, folder: Path
) -> None:
    (tmp_path / "reference.py").write_text("import numpy\ndef inputs(*_): return {'x': numpy.empty(1 << 60)}")
    huge = Open(**{**vars(request(tmp_path, device, folder)), "reference": str(tmp_path / "reference.py")})
    prove(child, device, folder)
    reply = child.ask(huge, 60)
    assert isinstance(reply, Trouble)
    assert "inputs() (line 2): " in reply.reason


@pytest.mark.slow
def test_runner_ends_when_its_parent_ends(tmp_path: Path) -> None:
    program = """
        import psutil, time
        from workers.runner.child import Child
        from workers.runner.protocol import Measure
        child = Child(threads=1)
        child.ask(Measure(candidate="a", samples=1, other_samples=1), 60)
        (runner,) = psutil.Process(child.pid).children()
        print(runner.pid, flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        runner = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        _, alive = psutil.wait_procs([runner], timeout=60)
    assert not alive


DETACHING = """
import os, signal, time
def inputs(*_):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open({path!r}, "w").write(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    while not os.path.exists({path!r}) or not open({path!r}).read():
        time.sleep(0.01)
    {ending}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [("time.sleep(600)", ChildTimeoutError, 10), ("os.kill(os.getpid(), signal.SIGKILL)", ChildDiedError, 300)],
)
def test_detached_processes_end_with_a_killed_or_crashed_runner(
    child: Child, tmp_path: Path, device: Device, folder: Path, how: tuple[str, type[Exception], float]
) -> None:
    pid, (ending, error, limit_s) = tmp_path / "pid", how
    (tmp_path / "reference.py").write_text(DETACHING.format(path=str(pid), ending=ending))
    detaching = Open(**{**vars(request(tmp_path, device, folder)), "reference": str(tmp_path / "reference.py")})
    prove(child, device, folder)
    with pytest.raises(error):
        child.ask(detaching, limit_s)
    with suppress(psutil.NoSuchProcess):
        detached = psutil.Process(int(pid.read_text()))
        detached.wait(timeout=60)


def test_runner_excludes_its_modules_from_garbage_collection(
    child: Child, tmp_path: Path, device: Device, folder: Path
) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "reference.py").write_text(
        f"import gc\nopen({str(seen)!r}, 'w').write(f'{{gc.isenabled()}} {{gc.get_freeze_count()}}')\nbroken"
    )
    opening = Open(**{**vars(request(tmp_path, device, folder)), "reference": str(tmp_path / "reference.py")})
    prove(child, device, folder)
    assert isinstance(child.ask(opening, 60), Trouble)
    enabled, frozen = seen.read_text().split()
    assert enabled == "True"
    assert int(frozen) > 10_000


def test_runner_does_not_import_packages_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "workers").mkdir()
    (tmp_path / "workers" / "__init__.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    child = Child(threads=1)
    reply = child.ask(Measure(candidate="a", samples=1, other_samples=1), 60)
    child.kill()
    assert isinstance(reply, Trouble)


def test_process_with_only_the_timed_case_knows_the_distributions_of_all_cases(tmp_path: Path, folder: Path) -> None:
    package = find("softmax")
    problem = package.family.problem("rows=8,cols=64", "cpu")
    work = Assignment(terms=terms(cpu(folder), package, problem=problem), copy=Families(tmp_path).add(package))
    every = open_request(work, folder).cases
    (alone,) = open_request(replace(work, timed_only=True), folder).cases
    assert alone.others == every[0].others
    assert {*alone.others} == {each.distribution for each in every if each.mixed}
    assert len(alone.others) > 2
