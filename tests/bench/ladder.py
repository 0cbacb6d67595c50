"""Times a family's sequence of optimisation steps (*ladder*) and the baselines: ``python -m tests.bench.ladder``.

Each step is verified and timed alone. Valid steps are then timed in one process, in rounds of random order, with new
inputs. The table also contains failed steps and steps without gain.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evo.cli.service.devices import choose, local_devices
from evo.device import Device
from evo.errors import EvoError
from evo.family.problem import Problem, problem_key
from evo.messages.job import Evaluate, FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.promotion.statistics import ratio_interval
from evo.text.wording import outcome_text
from evo.trial.explain import detail_text
from evo.trial.objective import Objective
from evo.trial.outcome import InvalidConfig, Measured, Outcome
from evo.trial.timing import Timing
from templates.registry import Package, find
from tests.bench.contest import compare, workshop
from tests.bench.report import aligned, figure
from tests.bench.steps import Step, steps
from workers.build.families import Assignment
from workers.build.kernel import KernelFile
from workers.jobs.evaluation import Evaluator
from workers.runner.protocol import Compared

POLICY = Policy(name="ladder", quick_samples=10)
HEADER = ("step", "", "µs", "IQR", "time saved by the step, %", "registers", "shared, KiB", "hand-written on an L4, µs")
RULE = ("---", "---", *["---:"] * 6)


@dataclass(frozen=True, kw_only=True)
class Climbed:
    """Result of one step.

    Attributes:
        kernels: kernels by case; empty if the step failed.
    """

    step: Step
    outcome: Outcome
    kernels: Mapping[str, KernelFile]
    resources: Mapping[str, float]

    @property
    def passed(self) -> bool:
        return isinstance(self.outcome, Measured)


def main(arguments: Sequence[str]) -> int:
    """Measure and print all steps. Return status 1 if a step fails unexpectedly, 2 if nothing can be measured."""
    options = _parser().parse_args(arguments)
    try:
        package = find(options.family)
        device = choose(local_devices(), options.device, package.family)
        problem = package.family.problem(options.problem, device.kind)
        with tempfile.TemporaryDirectory(prefix="kernel-evo-ladder-") as folder:
            climbed, compared = replay(package, problem, device, options.rounds, Path(folder))
    except EvoError as error:
        print(f"ladder: {error}", file=sys.stderr)
        return 2
    print(report(package, problem, device, climbed, compared))
    return int(not all(each.passed or isinstance(each.outcome, InvalidConfig) for each in climbed))


def replay(
    package: Package, problem: Problem, device: Device, rounds: int, folder: Path
) -> tuple[list[Climbed], Compared]:
    """Time each step alone, compare the valid steps, and return the results."""
    terms = SearchTerms(
        search_id=0,
        family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
        problem=problem,
        device=device,
        objective=Objective(),
        policy=POLICY,
        seed=0,
    )
    with workshop(terms, package, folder) as (ladder, runners, work):
        climbed = [_climb(ladder, work, number, step) for number, step in enumerate(steps(package))]
        kernels = {each.step.name: each.kernels for each in climbed if each.passed}
        return climbed, compare(runners, work, kernels, {name: name for name in kernels}, rounds)


def _climb(ladder: Evaluator, work: Assignment, number: int, step: Step) -> Climbed:
    """Verify and time a step. For a step that the device does not support, the result contains the reason."""
    print(f"\rstep {number + 1}: {step.name:40}", end="", file=sys.stderr, flush=True)
    built = ladder.build(work, step.config)
    outcome = ladder.evaluate(work, Evaluate(number=number, config=step.config), built).outcome
    kernels = built.kernels if isinstance(outcome, Measured) else {}
    return Climbed(step=step, outcome=outcome, kernels=kernels, resources=built.resources)


def report(package: Package, problem: Problem, device: Device, climbed: Sequence[Climbed], compared: Compared) -> str:
    """Return a Markdown table of all steps, with their gain over the step before, and of the baselines."""
    left_out = [f"Not run: {name}: {reason}." for name, reason in compared.unavailable.items()]
    refused = [
        f"{outcome_text(each.outcome.kind)}: {each.step.name}: {detail_text(each.outcome)}"
        for each in climbed
        if not each.passed
    ]
    rows = [HEADER, RULE, *_rows(climbed, compared.series), *_baseline_rows(compared.baselines)]
    title = f"## {package.family.name} {problem_key(problem)} on {device.model} ({device.architecture})"
    return "\n".join([title, "", *aligned(rows), "", *left_out, *refused])


def _rows(climbed: Sequence[Climbed], series: Mapping[str, Timing]) -> Iterator[Sequence[str]]:
    for number, each in enumerate(climbed, start=1):
        step, timing = each.step, series.get(each.step.name)
        place = f"{number}, aside" if step.aside else f"{number}"
        times = (figure(timing.median_us), figure(timing.iqr_us)) if timing else (outcome_text(each.outcome.kind), "")
        registers = f"{each.resources['registers']:.0f}" if "registers" in each.resources else ""
        shared = each.resources.get("shared_memory_bytes")
        by_hand = f"{step.on_l4_us:g}" if step.on_l4_us else ""
        gain = _gain(series.get(step.before or ""), timing)
        yield place, step.name, *times, gain, registers, "" if shared is None else f"{shared / 1024:.0f}", by_hand


def _baseline_rows(baselines: Mapping[str, Timing]) -> Iterator[Sequence[str]]:
    for name, timing in baselines.items():
        yield "baseline", name, figure(timing.median_us), figure(timing.iqr_us), "", "", "", ""


def _gain(before: Timing | None, after: Timing | None) -> str:
    """Return the saved time in percent with its 95 % interval; negative for a slower step."""
    if before is None or after is None:
        return ""
    ratio = ratio_interval(after.samples_us, before.samples_us, 0.95, np.random.default_rng(0))
    estimate, low, high = (f"{100 * (1 - share):.1f}" for share in (ratio.estimate, ratio.high, ratio.low))
    return f"{estimate} ({low} … {high})"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", default="sdpa_ladder", help="name or path of a family (default: %(default)s)")
    parser.add_argument("--problem", default="", help="problem fields, as in `kernel-evo search`")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--rounds", type=int, default=60, help="samples per step (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
