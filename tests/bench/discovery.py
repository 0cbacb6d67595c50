"""Searches from the default config, and compares the results with the best known configs: ``make bench-discovery``.

Each search has a new database and an empty cache. Its best config is then timed in one process, interleaved with the
best known configs of the problem: the stored champion, the starting configs of the family and the fastest recorded
config. Each run of a problem with a seed is a separate process. With several GPUs, each GPU has one run at a time.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter

from evo.device import Device
from evo.errors import EvoError
from evo.family import Family
from evo.space import Space
from evo.trial import Config
from evo.trial.explain import detail_text
from templates.registry import RECORDINGS, find
from tests.bench.contest import compare, device_at_hand, terms_of, workshop
from tests.bench.found import found_by, kept
from tests.bench.searching import BenchError, Effort, Match, database_of, search
from tests.bench.side_by_side import Place, Queue, places
from tests.bench.start import NoCandidate, confirmations_s, stages
from tests.bench.strategy.tables import table
from workers.backends.cuda.device import DRIVER

CHAMPIONS = Path("docs/results/champions")
MINUTES = 2.5
ROUNDS = 60
BESIDE_S = 150.0
"""Seconds that a run takes in addition to its search: start, confirmations and comparison."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A problem to search, and the maximum ratio of the found time to the best known time."""

    match: Match
    most: float


def _task(family: str, problem: str, most: float, *, cache: str = "hot") -> Task:
    return Task(match=Match(family=family, problem=problem, cache=cache), most=most)


TASKS = {
    "cuda": (
        _task("sdpa", "B=2,H=8,S=512,D=64", 1.02),
        _task("sdpa", "B=4,H=16,S=2048,D=64", 1.03),
        _task("sdpa", "B=4,H=16,S=4096,D=128", 1.05),
        _task("sdpa", "B=2,H=16,S=1024,D=192", 1.03),
        _task("gemm", "M=4096,N=4096,K=4096", 1.04),
        _task("sdpa_decode", "B=8,H=32,KV=8,S=8192,D=128", 1.02, cache="cold"),
    ),
    "cpu": (_task("softmax", "rows=512,cols=512", 1.1), _task("sdpa", "B=1,H=4,S=128,D=64", 1.1)),
}


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """Result of one search, compared with known configs.

    Attributes:
        found_us, known_us, default_us: median times in µs of the found, the best known and the default config,
            interleaved in one process; None for a config that could not run.
        known: source of the fastest known config.
        first_s: seconds from the command until the first candidate was timed; None if unknown.
        confirmation_s: duration of each confirmation in seconds.
    """

    problem: str
    seed: int
    device_model: str
    most: float
    trials: int
    found_us: float
    default_us: float | None
    known_us: float | None
    known: str
    first_s: float | None
    confirmation_s: tuple[float, ...]

    @property
    def ratio(self) -> float | None:
        """Time of the found config divided by the time of the best known config; None if one is unknown."""
        return None if self.known_us is None else self.found_us / self.known_us

    @property
    def row(self) -> list[str]:
        held = "" if self.ratio is None or self.ratio <= self.most else " (missed)"
        return [
            f"{self.problem}, seed {self.seed}",
            str(self.trials),
            _figure(self.default_us),
            _figure(self.found_us),
            f"{_figure(self.known_us)} ({self.known})",
            _figure(self.ratio) + held,
            f"{self.most:g}",
            _figure(self.first_s),
            _figure(median(self.confirmation_s) if self.confirmation_s else None),
        ]


HEADER = (
    "search from the default",
    "trials",
    "default µs",
    "found µs",
    "best known µs",
    "found/known",
    "at most",
    "first time after s",
    "confirmation s",
)
_JSON = TypeAdapter(Discovery)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def discover(task: Task, effort: Effort, folder: Path) -> Discovery:
    """Search from the default config, and compare the best config found with all known configs.

    Raises:
        BenchError: the search measured no config, or its best config cannot be built again.
    """
    begun = datetime.now(UTC)
    view = search(task.match, effort, folder)
    found = found_by(view, effort)
    database = database_of(task.match, folder)
    try:
        first_s: float | None = stages(database, begun).total_s
    except NoCandidate:
        first_s = None
    package = find(found.family)
    device = device_at_hand(found, package, effort.device, folder)
    with workshop(terms_of(found, device, package, effort.seed), package, folder) as (evaluator, runners, work):
        space = package.family.space(work.terms.problem, device, work.terms.objective)
        known = known_configs(task.match, package.family, device, space)
        configs = {"found": found.whole(space), "default": space.default(), **known}
        built = {name: evaluator.build(work, config) for name, config in configs.items()}
        if (refusal := built["found"].refusal) is not None:
            raise BenchError(f"{task.match.name}: the best config cannot be built: {detail_text(refusal)}")
        kernels = {name: each.kernels for name, each in built.items() if each.refusal is None}
        compared = compare(runners, work, kernels, {name: name for name in kernels}, ROUNDS, baselines=False)
    times_us = {name: timing.median_us for name, timing in compared.series.items()}
    fastest = min((name for name in known if name in times_us), key=times_us.__getitem__, default=None)
    return Discovery(
        problem=f"{found.family} {task.match.problem}",
        seed=effort.seed,
        device_model=device.model,
        most=task.most,
        trials=view.finished,
        found_us=times_us["found"],
        default_us=times_us.get("default"),
        known_us=None if fastest is None else times_us[fastest],
        known=fastest or "none",
        first_s=first_s,
        confirmation_s=tuple(confirmations_s(database)),
    )


def known_configs(match: Match, family: Family, device: Device, space: Space) -> Mapping[str, Config]:
    """Return the known valid configs of a problem by source: champion, starting configs, recordings."""
    found: dict[str, Config] = {}
    path = CHAMPIONS / f"{match.name}.json"
    if path.exists() and (stored := kept(path)).device_model == device.model:
        found["champion"] = stored.whole(space)
    for number, start in enumerate(family.begin(family.problem(match.problem, device.kind), device)):
        found[f"start {number}"] = {**space.default(), **start}
    for name, config in _recorded(match):
        found[name] = {**space.default(), **config}
    return {name: config for name, config in found.items() if config.keys() == {*space.names} and config in space}


def _recorded(match: Match) -> Iterator[tuple[str, Config]]:
    """Yield the fastest config of each recording of this problem."""
    for path in sorted(RECORDINGS.glob("*.json.gz")):
        if path.name.endswith(".t4.json.gz"):
            continue
        document = json.loads(gzip.decompress(path.read_bytes()))
        if (document["kernel_name"], document["problem"]) == (match.family, match.problem):
            timed = [each for each in document["cache"].values() if isinstance(each["time"], int | float)]
            best = min(timed, key=lambda each: float(each["time"]))
            tuned = {name: best[name] for name in document["tune_params_keys"]}
            yield path.name.removesuffix(".json.gz"), {**document["fixed"], **tuned}


def _run(place: Place, task: int, seed: int, options: argparse.Namespace) -> Discovery | None:
    """Run a task with a seed in a separate process. Print the error and return None if the process failed."""
    command = [sys.executable, "-m", "tests.bench.discovery", "--device", options.device, "--one", str(task)]
    command += ["--seed", str(seed), "--minutes", str(options.minutes)]
    environment = os.environ | ({"CUDA_VISIBLE_DEVICES": place.gpu} if options.device == "cuda" else {})
    done = subprocess.run(
        command,
        env=environment,
        preexec_fn=partial(os.sched_setaffinity, 0, place.cores),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        return None
    found = _JSON.validate_json(done.stdout.splitlines()[-1])
    print(" | ".join(found.row), flush=True)
    return found


def _one(options: argparse.Namespace) -> int:
    task = TASKS[options.device][options.one]
    effort = Effort(
        trials=1_000_000,
        minutes=options.minutes,
        sample=0,
        rounds=ROUNDS,
        seed=options.seed,
        device=options.device,
        from_default=True,
    )
    with tempfile.TemporaryDirectory(prefix="kernel-evo-discovery-") as folder:
        try:
            found = discover(task, effort, Path(folder))
        except (BenchError, EvoError) as error:
            print(f"bench-discovery: {task.match.name}, seed {options.seed}: {error}", file=sys.stderr)
            return 2
    print(_JSON.dump_json(found).decode())
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run the searches and print a table.

    Returns:
        Exit status: 1 if a limit is missed, 2 if a search failed or was not run.
    """
    options = _parser().parse_args(arguments)
    if options.one is not None:
        return _one(options)
    tasks = TASKS[options.device]
    chosen = options.tasks or range(len(tasks))
    runs = [(task, seed) for seed in range(options.seed, options.seed + options.seeds) for task in chosen]
    seconds = 60 * options.minutes + BESIDE_S
    queue = Queue(dict.fromkeys(range(len(runs)), seconds), time.monotonic() + options.within)
    results: dict[int, Discovery | None] = {}

    def serve(place: Place) -> None:
        for number in queue:
            results[number] = _run(place, *runs[number], options)

    threads = [threading.Thread(target=serve, args=(each,)) for each in _places(options.device)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [each for _, each in sorted(results.items()) if each is not None]
    print(table(HEADER, [each.row for each in found]))
    for number in queue.left:
        print(f"not searched: {tasks[runs[number][0]].match.name}, seed {runs[number][1]}", file=sys.stderr)
    if len(found) < len(runs):
        return 2
    return int(any(each.ratio is not None and each.ratio > each.most for each in found))


def _places(device: str) -> list[Place]:
    cores = sorted(os.sched_getaffinity(0))
    if device != "cuda":
        return [Place("", frozenset(cores))]
    there = os.environ.get("CUDA_VISIBLE_DEVICES")
    return places(there.split(",") if there else [str(index) for index in range(len(DRIVER.look()[0]))], cores)


def _parser() -> argparse.ArgumentParser:
    numbered = "; ".join(
        f"{device} " + ", ".join(f"{n}: {each.match.family} {each.match.problem}" for n, each in enumerate(tasks))
        for device, tasks in TASKS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.discovery", description=__doc__, epilog=f"problems: {numbered}"
    )
    parser.add_argument("tasks", type=int, nargs="*", metavar="NUMBER", help="problems to search (default: all)")
    parser.add_argument("--device", choices=tuple(TASKS), default="cuda")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, help="duration of a search in minutes (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="first seed")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of searches per problem")
    parser.add_argument(
        "--within", type=float, default=float("inf"), metavar="SECONDS", help="maximum duration of all searches"
    )
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
