"""Counts false refusals. It samples, verifies and times configs of every family, and confirms some of them.

``make bench-honest`` prints for each family how many configs were measured and why the other configs were not. The
built-in families are correct and fast. Each outcome `wrong_answer`, `crashed`, `invalid_measurement` or `timed_out` is
therefore a false refusal, and so is each promotion rule that reports a cheat.

With ``--champions``, the stored champions of a folder are evaluated and confirmed instead.

Several processes (``--jobs``) run in parallel on separate cores. Each outcome is appended to a file (``--file``). A
later run with the same file, seed and device continues.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import Queue, get_context
from pathlib import Path

import numpy as np

from evo.device import Device
from evo.device.cores import core_numbers
from evo.errors import EvoError
from evo.messages.job import Confirm, Evaluate, FamilyRef, SearchTerms
from evo.promotion import judge
from evo.promotion.policy import Policy
from evo.space import Space
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import Measured, Outcome, TimedOut
from evo.trial.results import ConfirmReport
from templates.registry import find
from tests.bench.found import Found, kept
from workers.backends import driver
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Evaluator
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
"""Problems by family. They are small, because the benchmark tests the rules and not the speed."""

SMALL_PROBLEMS = {
    "cross_entropy": "rows=8,cols=64",
    "gemm": "M=16,N=16,K=32",
    "gemm_fp8": "M=16,N=16,K=32",
    "layernorm": "rows=8,cols=64",
    "quantize_e4m3": "H=1,S=16",
    "reduce": "rows=8,cols=512",
    "rmsnorm": "rows=16,cols=128",
    "rope": "S=8,H=2,KV=1,D=16",
    "sdpa": "H=1,S=8",
    "sdpa_decode": "H=2,KV=1,S=16",
    "sdpa_fp8": "H=1,S=8",
    "softmax": "rows=8,cols=128",
    "swiglu": "rows=8,cols=128",
    "transpose": "rows=64,cols=32",
}
"""Problems whose buffers fit in the L1 cache of a CPU, so that calls with cold caches take many times as long."""

PROBLEMS_OF_GPUS = {
    "cross_entropy": "rows=512,cols=1024",
    "gemm": "M=512,N=512,K=512",
    "gemm_fp8": "M=512,N=512,K=512",
    "layernorm": "rows=512,cols=1024",
    "quantize_e4m3": "B=1,H=4,S=512,D=64",
    "reduce": "rows=512,cols=1024",
    "rmsnorm": "rows=512,cols=1024",
    "rope": "S=256,H=8,KV=2,D=64",
    "sdpa": "B=1,H=4,S=512,D=64",
    "sdpa_decode": "B=2,H=8,KV=2,S=1024,D=64",
    "sdpa_fp8": "B=1,H=4,S=512,D=64",
    "sdpa_ladder": "B=1,H=4,S=512,D=64",
    "softmax": "rows=512,cols=1024",
    "swiglu": "rows=512,cols=1024",
    "transpose": "rows=512,cols=1024",
}

FALSE = ("wrong_answer", "crashed", "invalid_measurement", "timed_out")
RULES = ("correct", "answers", "work", "inputs")
"""Promotion rules that refuse a kernel because it is wrong or cheats."""

POLICY = Policy(quick_samples=10)
CONFIRMING = Policy(quick_samples=10, confirm_samples=40, confirm_processes=1, verify_timeout_s=60.0)
AT_ONCE = 5
"""Number of configs per batch. A process evaluates one batch at a time."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Outcome of one config of a family.

    Attributes:
        family: name of the family, or of a stored champion.
        number: index of the config in the sample that the seed draws.
        status: kind of outcome, such as ``measured`` or ``wrong_answer``.
        confirmed: True if no rule of the confirmation reported a cheat; None if no confirmation ran.
        reason: reason of the false refusal; empty if there is none.
    """

    device: str
    seed: int
    family: str
    number: int
    status: str
    confirmed: bool | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A problem of a family, and the configs to evaluate.

    Attributes:
        name: name of the table's row: the family, or a stored champion.
        found: the stored champion. If it is None, configs are sampled.
    """

    name: str
    family: str
    problem: str
    objective: Objective = field(default_factory=Objective)
    found: Found | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """A batch: configs of one task for one process. Configs with a number below `confirmed` are also confirmed."""

    device: Device
    task: Task
    seed: int
    sampled: int
    numbers: tuple[int, ...]
    confirmed: int
    until_s: float
    """Time of `time.monotonic` after which no more configs are evaluated."""


def judged(part: Part) -> list[Finding]:
    """Evaluate configs of one task, confirm some of them, and return their outcomes."""
    task, kind = part.task, part.device.kind
    package = find(task.family)
    family = package.family
    terms = SearchTerms(
        search_id=0,
        family=FamilyRef(name=family.name, digest=package.digest, location=package.location),
        problem=family.problem(task.problem, kind),
        device=part.device,
        objective=family.terms(task.objective),
        policy=POLICY,
        seed=part.seed,
    )
    space = family.space(terms.problem, terms.device, terms.objective)
    configs = [task.found.whole(space)] if task.found else _sampled(space, part)
    found: list[Finding] = []
    with scratch() as folder, scratch() as own:
        evaluator = Evaluator(kind, folder, own, raise_trouble=True)
        work = Assignment(terms=terms, copy=Families(own).add(package))
        try:
            for number in part.numbers:
                if number >= len(configs) or time.monotonic() > part.until_s:
                    break
                found.append(_judged(evaluator, work, configs[number], number, part))
        finally:
            evaluator.close()
    return found


def _sampled(space: Space, part: Part) -> list[Config]:
    return list(space.sample(np.random.default_rng(part.seed), part.sampled))


def _judged(evaluator: Evaluator, work: Assignment, config: Config, number: int, part: Part) -> Finding:
    built = evaluator.build(work, config)
    outcome = evaluator.evaluate(work, Evaluate(number=number, config=config), built).outcome
    reason, confirmed = f"{config}: {_reason(outcome)}" if outcome.kind in FALSE else "", None
    if isinstance(outcome, Measured) and number < part.confirmed:
        job = Confirm(challenger=config, incumbent=None, seed=number)
        confirming = replace(work, terms=replace(work.terms, policy=CONFIRMING))
        fault = _fault(evaluator.confirm(confirming, job, {"challenger": built}))
        reason, confirmed = f"{config}: confirmation: {fault}" if fault else "", fault is None
    return Finding(
        device=part.device.model,
        seed=part.seed,
        family=part.task.name,
        number=number,
        status=outcome.kind,
        confirmed=confirmed,
        reason=reason,
    )


def _fault(report: ConfirmReport) -> str | None:
    """Return the reason why a confirmation refuses its challenger as wrong or cheating; None if it does not."""
    if report.failure is not None:
        return f"{report.failure.kind}: {_reason(report.failure)}"
    verdict = judge(report, CONFIRMING, 1, np.random.default_rng(0))
    unmet = [rule for rule in verdict.rules if not rule.passed and rule.conclusive and rule.name in RULES]
    findings = [finding for each in report.sanitizers for finding in each.findings]
    return "; ".join([f"rule {rule.name}: {rule.text}" for rule in unmet] + findings) or None


def _reason(outcome: Outcome) -> str:
    if isinstance(outcome, TimedOut):
        return f"{outcome.stage} took more than {outcome.limit_s:g} s"
    return str(getattr(outcome, "reason", "")).partition("\n")[0]


def sampled_families(kind: str, chosen: Sequence[str], *, small: bool) -> list[Task]:
    """Return a problem of each chosen family, by default of all families."""
    problems = PROBLEMS_OF_GPUS if kind == "cuda" else SMALL_PROBLEMS if small else PROBLEMS
    return [Task(name=name, family=name, problem=problems[name]) for name in chosen or problems]


def stored_champions(folder: Path) -> list[Task]:
    """Return the champions that `tests.bench.contest` stored in a folder."""
    found = [(file.stem, kept(file)) for file in sorted(folder.glob("*.json"))]
    return [
        Task(name=name, family=each.family, problem=each.problem, objective=each.objective, found=each)
        for name, each in found
    ]


def parts(
    tasks: Sequence[Task], known: Iterable[Finding], *, device: Device, asked: argparse.Namespace, until_s: float
) -> list[Part]:
    """Return the remaining configs in batches. Tasks alternate, so that a short run covers all of them."""
    done = {
        (each.family, each.number)
        for each in known
        if (each.device, each.seed) == (device.model, asked.seed)
        and (each.confirmed is not None or each.number >= asked.confirm or each.status != "measured")
    }
    made = []
    for start in range(0, asked.configs, AT_ONCE):
        for task in tasks:
            numbers = range(start, min(start + AT_ONCE, 1 if task.found else asked.configs))
            left = tuple(number for number in numbers if (task.name, number) not in done)
            if left:
                part = Part(
                    device=device,
                    task=task,
                    seed=asked.seed,
                    sampled=asked.configs,
                    numbers=left,
                    confirmed=asked.confirm,
                    until_s=until_s,
                )
                made.append(part)
    return made


def run(todo: Sequence[Part], jobs: int) -> Iterator[list[Finding]]:
    """Evaluate batches in `jobs` processes on separate cores, and yield the findings of each batch."""
    context, groups = get_context("spawn"), _groups(core_numbers(), jobs)
    queue: Queue[list[int]] = context.Queue()
    for group in groups:
        queue.put(group)
    with ProcessPoolExecutor(len(groups), mp_context=context, initializer=_settle, initargs=(queue,)) as pool:
        for future in as_completed([pool.submit(judged, part) for part in todo]):
            try:
                yield future.result()
            except EvoError as error:
                print(f"batch not evaluated: {error}", file=sys.stderr, flush=True)


def _groups(cores: Sequence[int], jobs: int) -> list[list[int]]:
    """Return one group of cores per job, all of equal size. With more jobs than cores, jobs share cores."""
    size = max(1, len(cores) // jobs)
    return [[cores[(job * size + each) % len(cores)] for each in range(size)] for job in range(jobs)]


def _settle(queue: "Queue[list[int]]") -> None:
    """Restrict this process to the next group of cores."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    group = queue.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, group)


def read(file: Path | None) -> list[Finding]:
    """Return the findings that earlier runs stored."""
    if file is None or not file.exists():
        return []
    return [Finding(**json.loads(line)) for line in file.read_text().splitlines() if line]


def table(findings: Iterable[Finding], families: Sequence[str]) -> str:
    """Return a Markdown table with a row for each family."""
    rows = [
        "| family | sampled | measured | other outcomes | confirmed | false refusals |",
        "| --- | ---: | ---: | --- | ---: | ---: |",
    ]
    held = list(findings)
    for family in [*families, "all"]:
        own = [each for each in held if family in (each.family, "all")]
        statuses = Counter(each.status for each in own)
        other = ", ".join(f"{status} {count}" for status, count in sorted(statuses.items()) if status != "measured")
        confirmed = sum(each.confirmed is not None for each in own)
        false = sum(bool(each.reason) for each in own)
        rows.append(f"| {family} | {len(own)} | {statuses['measured']} | {other or '–'} | {confirmed} | {false} |")
    return "\n".join(rows)


def main(arguments: Sequence[str]) -> int:
    """Evaluate the configs without stored outcome, and print the table. Return status 1 if there are false refusals."""
    asked, began_s = _parser().parse_args(arguments), time.monotonic()
    if asked.champions:
        tasks = stored_champions(asked.champions)
    else:
        tasks = sampled_families(asked.device, asked.families, small=asked.small)
    names = [task.name for task in tasks]
    with scratch() as folder:
        devices = driver(asked.device).discover(folder)
    if not devices:
        print(f"no {asked.device} device can be used on this machine", file=sys.stderr)
        return 2
    device, known = devices[0], read(asked.file)
    found = [each for each in known if (each.device, each.seed) == (device.model, asked.seed)]
    print(f"{device.model}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, seed {asked.seed}", flush=True)
    todo = parts(tasks, known, device=device, asked=asked, until_s=began_s + asked.within)
    for each in run(todo, asked.jobs) if todo else ():
        found = [*found, *each]
        for finding in each:
            if finding.reason:
                print(f"{finding.family} {finding.number}: {finding.reason}", flush=True)
        if asked.file is not None:
            with asked.file.open("a") as file:
                file.writelines(json.dumps(asdict(finding)) + "\n" for finding in each)
    latest = {(each.family, each.number): each for each in found if each.family in names}
    print(table(latest.values(), names))
    print(f"{time.monotonic() - began_s:.0f} s, load {os.getloadavg()[0]:.1f}")
    return int(any(each.reason for each in latest.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="default: all families with a kernel for the device")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--configs", type=int, default=200, help="number of sampled configs per family (default: %(default)s)"
    )
    parser.add_argument("--confirm", type=int, default=0, help="number of configs per family to confirm (default: 0)")
    parser.add_argument("--small", action="store_true", help="use problems that fit in the L1 cache of a CPU")
    parser.add_argument("--champions", type=Path, metavar="FOLDER", help="evaluate these stored champions")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes (default: %(default)s)")
    parser.add_argument(
        "--within", type=float, default=float("inf"), help="seconds after which no more configs are evaluated"
    )
    parser.add_argument("--file", type=Path, help="file that collects the outcomes of several runs")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
