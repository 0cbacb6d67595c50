"""Measures the time of a confirmation by stage: ``make bench-confirmation``.

For each problem, two configs are confirmed as in a worker's slot, but without a service: the default config, and then a
faster config with the default as incumbent. The faster config is the family's first starting config. If there is none,
it is the fastest of a few valid configs. The second confirmation usually ends in a promotion and then includes
sanitizers and profiles.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.messages.job import Confirm, Evaluate, FamilyRef, SearchTerms
from evo.promotion import decide
from evo.promotion.policy import POLICIES
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.results import ConfirmReport
from templates.registry import find
from tests.bench.strategy.tables import table
from workers.backends import driver
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Evaluator

PROBLEMS = {
    "cuda": ("sdpa:B=2,H=16,S=1024,D=192", "softmax:rows=2048,cols=50257"),
    "cpu": ("softmax:rows=1024,cols=1024",),
}
TRIED = 6
"""Number of random configs that are measured to find a fast config if the family has no starting configs."""

SEED = 7


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A confirmation with its duration."""

    label: str
    total_s: float
    report: ConfirmReport
    summary: str


class Workshop:
    """Builds, times and confirms configs of a problem on the first device of a kind."""

    def __init__(self, given: str, kind: str, folder: Path) -> None:
        family, _, problem = given.partition(":")
        package = find(family)
        (device, *_) = driver(kind).discover(folder)
        terms = SearchTerms(
            search_id=1,
            family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
            problem=package.family.problem(problem, kind),
            device=device,
            objective=Objective(),
            policy=POLICIES["default"],
            seed=SEED,
        )
        self.kind = kind
        self.work = Assignment(terms=terms, copy=Families(folder / "families").add(package))
        self.evaluator = Evaluator(kind, folder, folder / "place")
        self.space = package.family.space(terms.problem, device, terms.objective)

    @property
    def default(self) -> Config:
        return self.space.default()

    def other(self) -> Config:
        """Return the family's first valid starting config; if there is none, the fastest of `TRIED` random configs."""
        family, terms = self.work.copy.family, self.work.terms
        starts = [{**self.default, **start} for start in family.begin(terms.problem, terms.device)]
        for start in starts:
            if not family.violations(start, terms.problem, terms.device, terms.objective):
                return start
        tried = self.space.sample(np.random.default_rng(SEED), TRIED)
        return min(tried, key=self._time_us)

    def _time_us(self, config: Config) -> float:
        outcome = self.evaluator.evaluate(
            self.work, Evaluate(number=0, config=config), self.evaluator.build(self.work, config)
        ).outcome
        return outcome.timing.median_us if isinstance(outcome, Measured) else float("inf")

    def confirmed(self, label: str, challenger: Config, incumbent: Config | None) -> Timed:
        """Build both configs, and confirm the challenger. The measured time excludes the builds."""
        job = Confirm(challenger=challenger, incumbent=incumbent, seed=SEED)
        built = self.evaluator.prepare(self.work, job)
        begun = time.perf_counter()
        report = self.evaluator.confirm(self.work, job, built)
        total_s = time.perf_counter() - begun
        verdict = decide(report, self.work.terms.policy, 1, np.random.default_rng(SEED), kind=self.kind)
        return Timed(label=label, total_s=total_s, report=report, summary=verdict.summary)


def seconds(report: ConfirmReport) -> Mapping[str, tuple[float, float]]:
    """Return the seconds of each step by its name: in the first process, and in all later processes together."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for step in report.steps:
        found[step.name][step.process != 1] += step.seconds
    return {name: (first, later) for name, (first, later) in found.items()}


def shown(timed: Timed) -> str:
    """Return a table of the steps of one confirmation."""
    rows = [[name, f"{first:.2f}", f"{later:.2f}"] for name, (first, later) in seconds(timed.report).items()]
    noted_s = sum(step.seconds for step in timed.report.steps)
    rows.append(["other", "", f"{timed.total_s - noted_s:.2f}"])
    processes = len(timed.report.repeats) + 1
    head = f"{timed.label}: {timed.total_s:.1f} s, {processes} processes. {timed.summary}"
    return f"{head}\n\n{table(['seconds', 'first process', 'later'], rows)}\n"


def main(arguments: Sequence[str]) -> int:
    """Print a table for each confirmation, and a summary. Return status 1 if a confirmation was not measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.confirmation", description=__doc__)
    parser.add_argument(
        "problems", nargs="*", metavar="FAMILY:PROBLEM", help="problems to confirm (default: some for each device)"
    )
    parser.add_argument("--device", choices=tuple(PROBLEMS), default="cpu")
    options = parser.parse_args(arguments)
    found: list[Timed] = []
    for given in options.problems or PROBLEMS[options.device]:
        with tempfile.TemporaryDirectory(prefix="kernel-evo-bench-") as name:
            shop = Workshop(given, options.device, Path(name))
            try:
                for label, pair in {
                    f"{given} first champion": (shop.default, None),
                    f"{given} over the default": (shop.other(), shop.default),
                }.items():
                    found.append(shop.confirmed(label, *pair))
                    print(shown(found[-1]), flush=True)
            finally:
                shop.evaluator.close()
    print(
        table(
            ["confirmation", "seconds", "processes"],
            [[each.label, f"{each.total_s:.1f}", str(len(each.report.repeats) + 1)] for each in found],
        )
    )
    return int(any(each.report.challenger is None for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
