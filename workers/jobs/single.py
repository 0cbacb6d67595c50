"""Evaluates one config in this process, without a service."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

import structlog

from evo.device import Device, kind_of
from evo.family.problem import Problem
from evo.messages.job import Evaluate, FamilyRef, SearchTerms
from evo.promotion.policy import Policy
from evo.text.log_stream import LogStream
from evo.trial import Config
from evo.trial.objective import Objective
from evo.trial.outcome import Measured
from evo.trial.results import BaselineReport, EvaluateReport
from templates.registry import Package
from workers.build.build import Built
from workers.build.families import Assignment, Families
from workers.jobs.evaluation import Evaluator
from workers.system.device_lock import exclusive, log_busy
from workers.system.scratch import scratch


@dataclass(frozen=True, kw_only=True)
class EvaluatedConfig:
    """Result of evaluating one config.

    Attributes:
        built: result of the build. Its files no longer exist.
        waited_s: seconds of waiting for another process that had locked the device.
        trouble: error in reference.py that was found after the build of a CPU kernel failed, or None. After a
            successful build, such an error is raised as an exception.
        doubt: reason why the time may be too low (see `Evaluator.doubt`), or None. Also None if the outcome is not
            `Measured`.
        baselines: report of the baselines, or None if baselines were not requested or the outcome is not `Measured`.
    """

    report: EvaluateReport
    built: Built
    waited_s: float
    trouble: str | None = None
    doubt: str | None = None
    baselines: BaselineReport | None = None


def evaluate_config(
    package: Package,
    config: Config,
    *,
    problem: Problem,
    device: Device,
    folder: Path,
    objective: Objective | None = None,
    policy: Policy | None = None,
    seed: int = 0,
    baselines: bool = False,
    on_busy: Callable[[int | None], None] = log_busy,
    on_step: Callable[[str], None] = lambda _: None,
) -> EvaluatedConfig:
    """Render, compile, verify and time one config, as a slot does.

    Args:
        problem: complete problem, as `Family.problem` returns it.
        device: a CPU or GPU of this machine.
        folder: cache folder of the worker.
        baselines: True to also time the baselines of the family.
        on_busy: function that is called if another process has locked the device. Its argument is the id of that
            process, or None if unknown.
        on_step: function that is called at the start of each step that may take long, with a description.

    Raises:
        EvoError: there is no compiler or no folder for temporary files, the device is faulty, or reference.py fails,
            hangs or violates its contract. A bad candidate raises no exception.
    """
    if not structlog.is_configured():  # because structlog prints to standard output by default
        lines = cast("TextIO", LogStream())
        structlog.configure(logger_factory=lambda *_: structlog.PrintLogger(lines))
    terms = SearchTerms(
        search_id=0,
        family=FamilyRef(name=package.family.name, digest=package.digest, location=package.location),
        problem=problem,
        device=device,
        objective=package.family.terms(objective or Objective()),
        policy=policy or Policy(),
        seed=seed,
    )
    with scratch() as own:
        evaluator = Evaluator(device.kind, folder, own, raise_trouble=True)
        work = Assignment(terms=terms, copy=Families(own).add(package))
        try:
            on_step("compiling")
            built = evaluator.build(work, config)
            holding = nullcontext(0.0) if built.refusal else exclusive(device.uuid, on_busy=on_busy)
            with holding as waited_s:
                on_step("verifying every case with reference.py, then timing")
                report = evaluator.evaluate(work, Evaluate(number=0, config=config), built)
                measured = isinstance(report.outcome, Measured)
                if measured:
                    on_step("timing again on new inputs")
                doubt = evaluator.doubt(work) if measured else None
                if measured and baselines:
                    on_step("timing the baselines")
                beside = evaluator.baseline(work) if baselines and measured else None
            trouble = evaluator.trouble(work) if built.refusal and kind_of(device.kind).on_host else None
        finally:
            evaluator.close()
    return EvaluatedConfig(
        report=report, built=built, waited_s=waited_s, trouble=trouble, doubt=doubt, baselines=beside
    )
