"""Workers and a real service end every trial exactly once, despite faulty kernels and killed processes."""

import contextlib
import hashlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from evo.client import Client
from evo.device import DeviceKind
from evo.messages.view import SearchView, TrialView
from evo.search.lifecycle import TERMINAL
from templates.registry import Package, find
from tests.integration.serving import announced, process_of, served, wait_until
from tests.integration.workbench import FAMILIES
from tests.measured import measured
from tests.processes import running_with
from tests.tiers import one_in
from workers.daemon.daemon import Settings, serve

RECORDING = FAMILIES.parent / "synthetic.json"

PATIENCE_S = 600.0

POLICY = {
    "quick_samples": 5,
    "confirm_samples": 10,
    "confirm_processes": 1,
    "verify_timeout_s": 5.0,
    "measure_timeout_s": 30.0,
    "memory_limit_bytes": 128 << 20,
    "seeds": 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return measured(tmp_path_factory.mktemp("cache"))


class Bench:
    """A client of a service, and its workers."""

    def __init__(self, url: str, folder: Path, cache: Path) -> None:
        self.url = url
        self.client = Client(url)
        self._folder = folder
        self._cache = cache

    @contextmanager
    def working(self, kind: DeviceKind = "cpu") -> Iterator[None]:
        """Run a worker in a thread of the test."""
        stopping = threading.Event()
        settings = Settings(url=self.url, data=self._folder / "data", cache=self._cache, kinds=[kind], worker_id="w")
        thread = threading.Thread(target=serve, args=(settings,), kwargs={"stopping": stopping})
        thread.start()
        try:
            self._connected()
            yield
        finally:
            stopping.set()
            thread.join(PATIENCE_S)
        assert not thread.is_alive()

    @contextmanager
    def worker_process(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run a worker in its own process."""
        folders = ["--data", str(self._folder / "data"), "--cache", str(self._cache)]
        command = [
            sys.executable,
            "-m",
            "tests.small_caches",
            "worker",
            "--url",
            self.url,
            "--kind",
            "cpu",
            "--id",
            "w",
            *folders,
        ]
        with (self._folder / "worker.log").open("ab") as log, subprocess.Popen(command, stderr=log) as process:
            try:
                self._connected()
                yield process
            finally:
                process.kill()

    def search(self, package: Package, **terms: Any) -> SearchView:
        self.client.register_family(
            package.digest, name=package.family.name, document=package.family.document, location=package.location
        )
        defaults = {"strategy": "random", "seed": 1, "policy": POLICY}
        return self.client.create_search({"family_digest": package.digest, **defaults, **terms})

    def ended(self, search: SearchView) -> SearchView:
        deadline = time.monotonic() + PATIENCE_S
        while (now := self.client.search(search.id)).state not in TERMINAL:
            assert time.monotonic() < deadline, f"still {now.state} with {now.counts}"
            time.sleep(0.2)
        return now

    def trials(self, search: SearchView) -> list[TrialView]:
        return list(self.client.trials(search.id, limit=200).items)

    def begun(self, search: SearchView, finished: int = 1) -> None:
        wait_until(lambda: self.client.search(search.id).finished >= finished)

    def _connected(self) -> None:
        wait_until(lambda: bool(self.client.workers().items))


@pytest.fixture(autouse=True)
def _own_device_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate device lock, so that other measurements on this machine do not block these tests."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


@pytest.fixture
def bench(tmp_path: Path, cache: Path) -> Iterator[Bench]:
    with served(tmp_path / "kernel-evo.db") as url:
        bench = Bench(url, tmp_path, cache)
        yield bench
        bench.client.close()


@pytest.fixture
def mixed(tmp_path: Path) -> Package:
    """Return a family with 12 configs: four correct, four wrong, and four that do not compile."""
    return edited(tmp_path, FAULT=["none", "nan", "syntax"])


def edited(folder: Path, **tunables: list[object]) -> Package:
    """Return the faulty family with only some values of its tunables."""
    copy = folder / "faulty"
    shutil.copytree(FAMILIES / "faulty", copy)
    spec = (copy / "family.toml").read_text()
    for name, values in tunables.items():
        head, _, tail = spec.partition(f"[cpu.tunables.{name}]\nvalues = [")
        rest = tail[tail.index("help") :]
        spec = f"{head}[cpu.tunables.{name}]\nvalues = {values!r}\ndefault = {values[0]!r}\n{rest}"
    (copy / "family.toml").write_text(spec)
    return find(str(copy))


FAULTS = tomllib.loads((FAMILIES / "faulty" / "family.toml").read_text())["cpu"]["tunables"]["FAULT"]["values"]
FAULTS = [each for each in FAULTS if each != "rare"]  # omitted, because this fault is found only by chance
OF_EACH_KIND = ["none", "nan", "crash", "hang", "syntax", "render", "fork", "lazy"]


@pytest.mark.slow
@pytest.mark.parametrize("faults", one_in(2, [OF_EACH_KIND, FAULTS]), ids=["one fault of each kind", "all faults"])
def test_search_with_faulty_kernels_records_all_outcomes_and_promotes_a_correct_one(
    bench: Bench, tmp_path: Path, faults: list[object]
) -> None:
    package = edited(tmp_path, UNROLL=[1], FAULT=faults)
    thorough = {**POLICY, "shorten_ratio": None, "hopeless_ratio": None}  # slow kernels get all checks as well
    with bench.working():
        search = bench.ended(bench.search(package, problem="N=16384", policy=thorough))
    assert search.state == "finished"
    kinds = {
        "none": "measured",
        "print": "measured",
        "undefined": "measured",  # only a sanitizer finds this fault, which prevents a promotion
        "crash": "crashed",
        "exit": "crashed",
        "abort": "crashed",
        **dict.fromkeys(
            ("parent", "group", "fork", "fork_late", "daemon", "copy"), "launch_failed"
        ),  # kernels that import forbidden functions
        "allocate": "crashed",
        "hang": "timed_out",
        "syntax": "compile_failed",
        "render": "invalid_config",
    }
    trials = bench.trials(search)
    outcomes = {trial.config["FAULT"]: trial.outcome.kind for trial in trials if trial.outcome}
    assert len(outcomes) == len(faults)
    # does an eighth of the work; it is impossibly fast on some machines, on others only a special check finds it
    assert outcomes.pop("lazy") in {"measured", "impossible"}
    assert outcomes == {fault: kinds.get(str(fault), "wrong_answer") for fault in outcomes}
    assert search.champion is not None
    assert search.champion.config["FAULT"] in {"none", "print"}
    assert set(search.baselines) == {"numpy"}
    for trial in trials:
        for digest in trial.artefacts.values():
            assert hashlib.sha256(bench.client.artefact(digest)).hexdigest() == digest
    assert set(search.champion.artefacts) >= {"source", "binary"}


@pytest.mark.long
def test_search_that_compiles_while_measuring_records_every_outcome(
    bench: Bench, mixed: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.daemon.pipeline.FEW_CORES", 1)
    with bench.working():
        search = bench.ended(bench.search(mixed, problem="N=4096"))
    assert search.counts == {"measured": 4, "wrong_answer": 4, "compile_failed": 4}


@pytest.mark.slow
def test_candidates_with_equal_binaries_are_measured_once(bench: Bench, tmp_path: Path) -> None:
    package = edited(tmp_path, FAULT=["none"])
    template = package.path / "kernel.c.j2"
    template.write_text(template.read_text().replace("{{ UNROLL }}", "1").replace("range(UNROLL)", "range(1)"))
    with bench.working():
        search = bench.ended(bench.search(find(str(package.path)), problem="N=256"))
    trials = bench.trials(search)
    assert len(trials) == 4
    assert len({trial.outcome.timing.samples_us for trial in trials if trial.outcome}) == 1


@pytest.mark.slow
def test_searches_of_a_recorded_space_with_equal_seeds_are_identical(tmp_path: Path, cache: Path) -> None:
    logs = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        with served(tmp_path / name / "kernel-evo.db") as url:
            bench = Bench(url, tmp_path / name, cache)
            with bench.working("replay"):
                search = bench.ended(bench.search(find(str(RECORDING)), budget={"trials": 12}, seed=3))
            logs.append([(trial.number, dict(trial.config), trial.outcome) for trial in bench.trials(search)])
            bench.client.close()
    assert len(logs[0]) == 12
    assert logs[0] == logs[1]


@pytest.mark.slow
def test_stopped_worker_returns_its_leases_and_leaves_no_process(bench: Bench, mixed: Package) -> None:
    with bench.worker_process() as process:
        search = bench.search(mixed, problem="N=4096", budget={"trials": 9})
        bench.begun(search)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    _, alive = psutil.wait_procs(family, timeout=60)
    assert not alive
    with bench.working():
        search = bench.ended(search)
    assert (search.state, search.finished) == ("finished", 9)
    assert "abandoned" not in search.counts


@pytest.mark.long
def test_killed_worker_is_replaced_and_no_trial_is_lost_or_counted_twice(bench: Bench, mixed: Package) -> None:
    search = None
    for finished in (1, 5):
        with bench.worker_process() as process:
            search = search or bench.search(mixed, problem="N=4096", budget={"trials": 9})
            bench.begun(search, finished)
            runners = psutil.Process(process.pid).children(recursive=True)
            process.kill()
        _, alive = psutil.wait_procs(runners, timeout=60)
        assert not alive
    assert search is not None
    with bench.working():
        search = bench.ended(search)
    assert (search.state, search.asked, search.finished) == ("finished", 9, 9), (search.reason, search.counts)
    assert [trial.number for trial in bench.trials(search)] == list(range(9))


@pytest.mark.long
def test_search_finishes_all_trials_despite_killed_runners(bench: Bench, mixed: Package) -> None:
    with bench.working():
        search = bench.search(mixed, problem="N=4096", budget={"trials": 9})
        for finished in (1, 5):
            bench.begun(search, finished)
            for child in running_with("workers.runner.guardian", psutil.Process().children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        search = bench.ended(search)
    assert (search.state, search.finished) == ("finished", 9)


@pytest.mark.slow
def test_worker_delivers_its_results_after_the_service_was_killed_and_restarted(
    tmp_path: Path, cache: Path, mixed: Package
) -> None:
    database = tmp_path / "kernel-evo.db"
    with process_of(database) as service:
        url = announced(database)
        bench = Bench(url, tmp_path, cache)
        with bench.worker_process():
            search = bench.search(mixed, problem="N=4096", budget={"trials": 9})
            bench.begun(search)
            service.kill()
            service.wait()
            with process_of(database, port=int(url.rpartition(":")[2])):
                wait_until(lambda: announced(database) == url)
                search = bench.ended(search)
        bench.client.close()
    assert (search.state, search.asked, search.finished) == ("finished", 9, 9), (search.reason, search.counts)


@pytest.mark.slow
def test_cancelling_a_search_stops_its_hanging_kernel(bench: Bench, tmp_path: Path) -> None:
    package = edited(tmp_path, FAULT=["hang"])
    with bench.working():
        patient = {**POLICY, "verify_timeout_s": 300.0}
        search = bench.search(package, problem="N=256", policy=patient)
        wait_until(lambda: bench.client.search(search.id).asked > 0)
        bench.client.command(search.id, "cancel")
        after = bench.ended(bench.search(edited(tmp_path / "good", FAULT=["none"]), problem="N=256"))
    assert after.counts == {"measured": 4}
    assert bench.client.search(search.id).state == "cancelled"
