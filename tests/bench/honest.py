"""False refusals of honest kernels: sampled configs of every family with CPU kernels, verified and timed.

``make bench-honest`` prints, by family, how many configs were measured and why others were not. The built-in families
are correct, so each `wrong_answer`, `crashed` or `invalid_measurement` is a false refusal.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.device import Device
from evo.messages.job import Evaluate, FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.trial.objective import Objective
from evo.trial.outcome import Outcome
from templates.registry import Package, find
from workers.backends import driver
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Ladder
from workers.system.scratch import scratch

PROBLEMS = {
    "cross_entropy": "rows=128,cols=256",
    "gemm": "M=96,N=128,K=160",
    "gemm_fp8": "M=64,N=96,K=128",
    "layernorm": "rows=128,cols=256",
    "quantize_e4m3": "H=2,S=64",
    "reduce": "rows=128,cols=256",
    "rmsnorm": "rows=128,cols=256",
    "rope": "S=64,H=4,KV=2,D=32",
    "sdpa": "H=2,S=64",
    "sdpa_decode": "H=4,KV=2,S=128",
    "sdpa_fp8": "H=2,S=64",
    "softmax": "rows=128,cols=256",
    "swiglu": "rows=128,cols=256",
    "transpose": "rows=128,cols=256",
}
"""Small problems, because rules are tested, not speed."""

FALSE = ("wrong_answer", "crashed", "invalid_measurement")
POLICY = Policy(quick_samples=10)


@dataclass(frozen=True, kw_only=True)
class Family:
    """Outcomes of a family's configs."""

    name: str
    statuses: Counter[str]
    refusals: tuple[str, ...]
    """Reasons of false refusals."""


def judged(package: Package, problem: str, *, device: Device, folder: Path, count: int, seed: int) -> Family:
    """Evaluate distinct random configs of one family."""
    family, statuses, refusals = package.family, Counter[str](), list[str]()
    terms = SearchTerms(
        search_id=0,
        family=FamilyRef(name=family.name, digest=package.digest, location=package.location),
        problem=family.problem(problem, "cpu"),
        device=device,
        objective=Objective(),
        policy=POLICY,
        seed=seed,
    )
    configs = family.space(terms.problem, device, terms.objective).sample(np.random.default_rng(seed), count)
    with scratch() as own:
        ladder = Ladder(device.kind, folder, own, raise_trouble=True)
        work = Assignment(terms=terms, copy=Families(own).add(package))
        try:
            for number, config in enumerate(configs):
                outcome = ladder.evaluate(
                    work, Evaluate(number=number, config=config), ladder.build(work, config)
                ).outcome
                statuses[outcome.kind] += 1
                if outcome.kind in FALSE:
                    refusals.append(f"{config}: {_reason(outcome)}")
        finally:
            ladder.close()
    return Family(name=family.name, statuses=statuses, refusals=tuple(refusals))


def _reason(outcome: Outcome) -> str:
    return str(getattr(outcome, "reason", "")).splitlines()[0]


def report(families: Iterator[Family]) -> int:
    """Print a line for each family; return the number of false refusals."""
    false = 0
    for each in families:
        print(f"{each.name:16s}", ", ".join(f"{status} {count}" for status, count in sorted(each.statuses.items())))
        for reason in each.refusals:
            print(f"    {reason}")
        sys.stdout.flush()
        false += len(each.refusals)
    return false


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", default=list(PROBLEMS), help="by default all with CPU kernels")
    parser.add_argument("--configs", type=int, default=200, help="sampled of each family")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began_s = time.monotonic()
    with scratch() as folder:
        (device,) = driver("cpu").discover(folder)
        print(f"{device.model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, seed {asked.seed}")
        false = report(
            judged(find(name), PROBLEMS[name], device=device, folder=folder, count=asked.configs, seed=asked.seed)
            for name in asked.families
        )
    print(f"{false} false refusals; {time.monotonic() - began_s:.0f} s")
    raise SystemExit(false > 0)


if __name__ == "__main__":
    main()
