"""Measures, without a GPU, how many valid configs compile within the resource limits, and how long builds take.

``python -m tests.bench.compiling`` or ``make bench-compiling`` compiles random configs of every family with a CUDA
template, for the problems of `PROBLEMS` and all architectures that support them.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from statistics import median

import numpy as np

from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.family import Launch
from evo.promotion.policy import Policy
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import CompileFailed
from templates.registry import find
from templates.render import render
from tests.bench.strategy.tables import table
from workers.backends.cuda.compilers.nvrtc import NvrtcCompiler
from workers.build import Unit
from workers.build.build import gate

ARCHITECTURES = ("sm_80", "sm_89", "sm_90")
PROBLEMS = (
    ("sdpa", "B=2,H=8,S=512,D=64"),
    ("sdpa", "B=4,H=16,S=4096,D=128,causal=true"),
    ("sdpa", "B=1,H=8,S=129,D=80"),
    ("sdpa", "B=2,H=5,S=1000,D=96,causal=true"),
    ("sdpa", "B=1,H=16,S=2048,D=192"),
    ("sdpa", "B=2,H=16,S=1024,D=256"),
    ("sdpa_fp8", "B=2,H=8,S=512,D=64"),
    ("sdpa_fp8", "B=4,H=16,S=4096,D=128,v_layout=columns"),
    ("quantize_e4m3", "B=2,H=8,S=512,D=64"),
    ("sdpa_decode", "B=8,H=32,KV=8,S=8192,D=128"),
    ("sdpa_ladder", "B=2,H=8,S=512,D=64"),
    ("gemm", "M=4096,N=4096,K=4096"),
    ("gemm", "M=16,N=14336,K=4096"),
    ("gemm_fp8", "M=4096,N=4096,K=4096"),
    ("softmax", "rows=4096,cols=4096"),
    ("softmax", "rows=2048,cols=50257"),
    ("softmax", "rows=4096,cols=128256,dtype=bfloat16"),
    ("rmsnorm", "rows=16384,cols=4096"),
    ("rmsnorm", "rows=8192,cols=5121,dtype=bfloat16"),
    ("layernorm", "rows=16384,cols=4096"),
    ("layernorm", "rows=6304,cols=1023,dtype=bfloat16"),
    ("swiglu", "rows=4096,cols=14336,dtype=bfloat16"),
    ("transpose", "rows=16384,cols=4096"),
    ("reduce", "rows=16384,cols=4096"),
)
WANTED_SHARE, WANTED_S = 0.95, 1.0


@dataclass(frozen=True, kw_only=True)
class Build:
    """Result of building one config. `refusal` is the reason of a failure; None if the build succeeded."""

    seconds: float
    refusal: str | None


def main(arguments: Sequence[str]) -> int:
    """Print the table. Return status 1 if a row is below its limit."""
    options = _parser().parse_args(arguments)
    rows, short = [], []
    with ProcessPoolExecutor(options.jobs) as pool:
        for family, problem, architecture, valid, drawn in _draws(options.family, options.configs):
            builds = list(pool.map(_built, [(family, problem, architecture, each) for each in drawn]))
            share = sum(each.refusal is None for each in builds) / len(builds)
            middle_s = median(each.seconds for each in builds)
            held = share >= WANTED_SHARE and middle_s <= WANTED_S
            short += [] if held else [f"{family} {problem} {architecture}: {share:.0%} in {middle_s:.2f} s"]
            slow_s = float(np.quantile([each.seconds for each in builds], 0.9))
            rows.append([family, problem, architecture, valid, f"{share:.0%}", f"{middle_s:.2f}", f"{slow_s:.2f}"])
            print(
                " ".join(map(str, rows[-1])), *{each.refusal for each in builds} - {None}, file=sys.stderr, flush=True
            )
    print(f"{options.configs} configs each, {options.jobs} at a time.\n")
    print(table(["family", "problem", "for", "valid", "within the limits", "median, s", "90 %, s"], rows))
    for each in short:
        print(f"limit missed: {each}", file=sys.stderr)
    return int(bool(short))


def _draws(chosen: str, count: int) -> Iterator[tuple[str, str, str, str, list[Config]]]:
    for family, problem in PROBLEMS:
        if chosen not in ("all", family):
            continue
        for architecture in ARCHITECTURES:
            subject, device = find(family).family, known(architecture)
            stated = subject.problem(problem, "cuda")
            try:
                subject.check_device(stated, device)
            except InvalidInput:
                continue  # FP8 families are not built for GPUs before sm_89
            space = subject.space(stated, device, Objective())
            valid = "over a million" if space.valid_count is None else f"{space.valid_count:,}"
            yield family, problem, architecture, valid, space.sample(np.random.default_rng(1), count, ())


def _built(job: tuple[str, str, str, Config]) -> Build:
    family, problem_text, architecture, config = job
    package, device = find(family), known(architecture)
    problem = package.family.problem(problem_text, "cuda")
    candidate = package.family.candidate(config, problem, device, Objective())
    source = render(package, "cuda", config, problem, candidate.derived)
    entry = package.family.implementation("cuda").entry
    unit = Unit(source=source, architecture=candidate.target(device.architecture), entry=entry)
    begun = time.monotonic()
    made = _compiler().compile(unit, timeout_s=60)
    seconds = time.monotonic() - begun
    if isinstance(made, CompileFailed):
        return Build(seconds=seconds, refusal="compile_failed")
    assert candidate.launch is not None
    launch = Launch(**vars(candidate.launch))
    resources = _compiler().resources(made, launch, device)
    refused = _compiler().refusal(resources, launch, device) or gate(resources, Policy())
    return Build(seconds=seconds, refusal=refused.resource if refused else None)


@cache
def _compiler() -> NvrtcCompiler:
    return NvrtcCompiler()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-compiling", description=__doc__)
    parser.add_argument(
        "--configs", type=int, default=40, help="random configs per problem and architecture (default: %(default)s)"
    )
    families = sorted({family for family, _ in PROBLEMS})
    parser.add_argument("--family", choices=["all", *families], default="all", help="compile only this family")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel processes (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
