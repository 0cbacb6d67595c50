"""Compares the configs per minute of a search and of Kernel Tuner, with the same template, space and GPU.

``python -m tests.bench.throughput`` or ``make bench-throughput`` runs both alternately, with empty caches. A trial of
the search is compiled for all cases, verified on all cases, and timed hot and cold. Kernel Tuner compiles one kernel
and times it seven times (its default), without checking results. It gets only configs that it can launch: those without
tensor maps and warpgroup products.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from evo.device import Device
from evo.family import Candidate
from evo.trial.objective import Objective
from templates.registry import find
from templates.render import render
from tests.bench.searching import BenchError, Effort, Match, search, trials_of
from workers.backends.cuda.device import DRIVER

DRAWN = 2_000
"""Number of configs from which Kernel Tuner chooses, because it enumerates its whole space before it starts."""

FAMILY = "sdpa"
WANTED_A_MINUTE, WANTED_RATIO = 120, 3
KERNEL_TUNER = (sys.executable, "-m", "tests.bench.throughput", "--kernel-tuner")
GRACE_S = 600
"""Seconds in addition to the duration of a run, for drawing configs, enumerating the space and waiting."""

TELL_EVERY_S = 5.0


def main(arguments: Sequence[str]) -> int:
    """Print each rate as soon as it is known. Return status 1 if a run fails or a required rate is missed."""
    options = _parser().parse_args(arguments)
    if options.turns < 1:
        print(f"bench-throughput: --turns must be at least 1, not {options.turns}", file=sys.stderr)
        return 2
    if options.kernel_tuner:
        _as_kernel_tuner(options)
        return 0
    ours, whole, theirs = [], [], []
    try:
        _say(f"| {options.problem} | configs per minute |\n| --- | ---: |")
        for _ in range(options.turns):
            with tempfile.TemporaryDirectory(prefix="kernel-evo-throughput-") as folder:
                loop, command = _ours(options.problem, options.minutes, Path(folder))
                ours.append(loop)
                whole.append(command)
                _say(f"| kernel-evo search | {loop:.0f} |")
                _say(f"| the search including start, baselines and confirmations | {command:.0f} |")
                theirs.append(_theirs(options.problem, options.minutes, Path(folder)))
                _say(f"| Kernel Tuner | {theirs[-1]:.0f} |")
    except BenchError as error:
        print(f"bench-throughput: {error}", file=sys.stderr)
        return 1
    _say(f"\n{sum(ours) / sum(theirs):.1f} times as many configs per minute.")
    return int(min(whole) < WANTED_A_MINUTE or sum(ours) < WANTED_RATIO * sum(theirs))


def _ours(problem: str, minutes: float, folder: Path) -> tuple[float, float]:
    """Return trials per minute between the first and the last trial, and trials per minute of the whole command.

    The command also starts a service and a worker, times the baselines and confirms the best configs.
    """
    begun = time.monotonic()
    match = Match(family=FAMILY, problem=problem)
    view = search(match, Effort(trials=100_000, minutes=minutes, sample=0, rounds=0, seed=0, device="cuda"), folder)
    whole_s = time.monotonic() - begun
    ended = sorted(each.finished_at for each in trials_of(view, match, folder) if each.finished_at is not None)
    loop_s = (ended[-1] - ended[0]).total_seconds()
    return 60 * (len(ended) - 1) / loop_s, 60 * len(ended) / whole_s


def _theirs(problem: str, minutes: float, folder: Path) -> float:
    """Return Kernel Tuner's configs per minute after the first config, measured in a separate process.

    Raises:
        BenchError: Kernel Tuner failed, tried no config, or did not end.
    """
    empty = os.environ | {"CUPY_CACHE_DIR": str(folder / "cupy"), "CUDA_CACHE_PATH": str(folder / "driver")}
    empty["PYTHONFAULTHANDLER"] = "1"  # Kernel Tuner once ended with a segmentation fault and no message
    command, limit_s = [*KERNEL_TUNER, "--problem", problem, "--minutes", str(minutes)], 60 * minutes + GRACE_S
    try:
        done = subprocess.run(command, env=empty, stdout=subprocess.PIPE, text=True, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise BenchError(f"Kernel Tuner was stopped after {limit_s:.0f} s, {GRACE_S} s after its time limit") from None
    said = (done.stdout.split("\n")[-2:-1] or ["no output"])[0]
    if done.returncode != 0:
        raise BenchError(f"Kernel Tuner ended with status {done.returncode}: {said}")
    if not (rate := float(said)) > 0:
        raise BenchError("Kernel Tuner tried no config")
    return rate


def _as_kernel_tuner(options: argparse.Namespace) -> None:
    """Run Kernel Tuner in the process that `_theirs` starts. The last line of output is the rate or the error."""
    try:
        _say(str(_kernel_tuner(options.problem, 60 * options.minutes)))
    except Exception as error:
        _say(" ".join(f"{type(error).__name__}: {error}".split()))
        raise


def _say(text: str) -> None:
    """Print a text immediately, so that it is not lost if a later step fails."""
    print(text, flush=True)


def _kernel_tuner(problem_text: str, seconds: float) -> float:
    """Return the configs per minute of Kernel Tuner's random sampling with its CuPy backend."""
    from constraint import FunctionConstraint
    from kernel_tuner import tune_kernel
    from kernel_tuner.backends.cupy import CupyFunctions

    gpu, package = DRIVER.look()[0][0], find(FAMILY)
    problem = package.family.problem(problem_text, "cuda")
    space = package.family.space(problem, gpu, Objective())
    drawn = space.sample(np.random.default_rng(0), 2 * DRAWN, ())
    made = ((each, package.family.candidate(each, problem, gpu, Objective())) for each in drawn)
    configs, candidates = zip(*islice((each for each in made if plain(each[1], gpu)), DRAWN), strict=True)
    _allow_large_shared_memory(CupyFunctions, gpu)
    threads = [_launch(each).block[0] for each in candidates]
    course = _Course()

    def source(chosen: Mapping[str, int]) -> str:
        course.tries(chosen["config"])
        return render(package, "cuda", configs[chosen["config"]], problem, candidates[chosen["config"]].derived)

    results, _ = tune_kernel(
        package.family.implementation("cuda").entry,
        source,
        lambda chosen: (_launch(candidates[chosen["config"]]).grid[0],),
        _arguments(candidates[0]),
        {"config": list(range(len(configs))), "block_size_x": sorted(set(threads))},
        restrictions=[FunctionConstraint(lambda config, block_size_x: threads[config] == block_size_x)],
        smem_args={"size": lambda chosen: _launch(candidates[chosen["config"]]).shared_memory_bytes},
        grid_div_x=[],
        lang="cupy",
        compiler_options=["--std=c++17"],
        strategy="random_sample",
        strategy_options={"time_limit": seconds, "max_fevals": len(configs)},
        quiet=True,
    )
    return 60 * len(results) / course.elapsed_s if results else 0.0


def plain(candidate: Candidate, gpu: Device) -> bool:
    """Return True if Kernel Tuner can launch a kernel: it takes only arrays, and runs on all GPUs of its architecture.

    Kernel Tuner passes no tensor maps, so that the driver would read beyond its arguments. It cannot compile for
    ``sm_90a``.
    """
    return not _launch(candidate).tensor_maps and candidate.target(gpu.architecture) == gpu.architecture


@dataclass(kw_only=True)
class _Course:
    """Prints the progress of Kernel Tuner on standard error."""

    begun_s: float | None = None
    told_s: float = 0.0
    tried: set[int] = field(default_factory=set)

    @property
    def elapsed_s(self) -> float:
        return 0.0 if self.begun_s is None else time.monotonic() - self.begun_s

    def tries(self, config: int) -> None:
        self.begun_s = time.monotonic() if self.begun_s is None else self.begun_s
        self.tried.add(config)
        if self.elapsed_s >= self.told_s + TELL_EVERY_S:
            self.told_s = self.elapsed_s
            print(f"Kernel Tuner: {len(self.tried)} configs in {self.elapsed_s:.0f} s", file=sys.stderr, flush=True)


def _launch(candidate: Candidate) -> Any:
    assert candidate.launch is not None
    return candidate.launch


def _arguments(candidate: Candidate) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(each.shape).astype(each.dtype) for each in candidate.operands]


def _allow_large_shared_memory(backend: Any, gpu: Device) -> None:
    """Allow more shared memory than Kernel Tuner's 48 KB, which half of the configs exceed."""
    most, compile_as_it_is = int(gpu.limits["shared_memory_bytes"]), backend.compile

    def compile_and_allow(self: Any, instance: Any) -> Any:
        function = compile_as_it_is(self, instance)
        function.max_dynamic_shared_size_bytes = most - function.shared_size_bytes
        return function

    backend.compile = compile_and_allow


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-throughput", description=__doc__)
    parser.add_argument("--problem", default="B=2,H=8,S=512,D=64")
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="duration of a run in minutes (default: %(default)s)"
    )
    parser.add_argument(
        "--turns", type=int, default=2, help="number of runs of each tuner; the tuners alternate (default: %(default)s)"
    )
    parser.add_argument("--kernel-tuner", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
