"""The evidence that a promotion requires for each device kind, and the reasons that make evidence void."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from evo.device import DeviceKind, kind_of
from evo.device.separation import LEVELS, Separation, level, missing
from evo.promotion.judgement import judge
from evo.promotion.policy import Policy
from evo.promotion.rules.base import Known
from evo.promotion.verdict import Rule, Verdict
from evo.trial.objective import PROTOCOL_VERSION, Objective
from evo.trial.results import ConfirmReport


@dataclass(frozen=True, kw_only=True)
class RequiredEvidence:
    """Required contents of a confirmation report, without which no trial is promoted. They depend on the device kind.

    Attributes:
        proof: True if the report must contain: the correctness cases; the check of the outputs of timed calls; the
            comparison of calls on overwritten outputs with calls on outputs that already hold the result; the
            comparison of calls on new inputs with calls on known inputs in every process, if the kernel has inputs; and
            the findings of sanitizers, or the reason why none ran.
        processes: True if the report must contain the number of fresh processes that the policy requires.
        environment: keys that `ConfirmReport.environment` must contain.
    """

    proof: bool
    processes: bool
    environment: tuple[str, ...] = ()


def required(kind: DeviceKind) -> RequiredEvidence:
    """Return the evidence that a promotion on a device of this kind requires.

    Devices that replay recordings need only samples. Devices that estimate times run no kernels, so their reports
    always lack required evidence, and promote nothing.
    """
    declared = kind_of(kind)
    runs = declared.runs != "recordings"
    return RequiredEvidence(proof=runs, processes=runs, environment=("separation",) if declared.separation else ())


def decide(
    report: ConfirmReport,
    policy: Policy,
    challengers: int,
    rng: np.random.Generator,
    known: Known = Known(),
    *,
    kind: DeviceKind,
    inputs: bool = True,
) -> Verdict:
    """Return the verdict on a confirmation: all rules of `judge`, and the rules on separation and required evidence.

    Args:
        kind: kind of the device that measured the kernels. The remaining arguments are those of `judge`.
        inputs: True if the kernels have inputs, so that times on new and known inputs can be compared.
    """
    verdict = judge(report, policy, challengers, rng, known)
    if report.failure is not None or report.challenger is None:
        return verdict
    added = [
        *_separation_rule(report, policy, kind),
        _evidence_rule(report, policy, kind, promoted=verdict.promote, inputs=inputs),
    ]
    rules = (*verdict.rules, *added)
    unmet = [rule for rule in added if not rule.passed]
    if not unmet or not verdict.promote:
        return replace(verdict, rules=rules)
    return replace(verdict, promote=False, summary=f"Not promoted. {unmet[0].text}", rules=rules)


def _separation_rule(report: ConfirmReport, policy: Policy, kind: DeviceKind) -> Iterator[Rule]:
    """Yield the rule on the isolation of the candidate from the process that checks and times it.

    There is no rule if the policy requires no isolation, or if kernels of this device kind are not machine code of the
    CPU.
    """
    demanded = "full" if policy.untrusted == "sandbox" else policy.min_separation
    if demanded == "none" or "separation" not in required(kind).environment:
        return
    reported = report.environment.get("separation", "")
    found, needed = level(reported), cast(Separation, demanded)
    figure, threshold = LEVELS.index(found), LEVELS.index(needed)
    text = (
        f"Isolation of the candidate from the process that checks it: {reported or 'none'} (level {found}); "
        f"the policy requires {needed}."
    )
    if figure < threshold:
        text += (
            f" Missing: {', '.join(missing(reported))}; `kernel-evo doctor` on the worker's machine names the remedy."
        )
    yield Rule(
        name="separation", passed=figure >= threshold, figure=float(figure), threshold=float(threshold), text=text
    )


def _evidence_rule(report: ConfirmReport, policy: Policy, kind: DeviceKind, *, promoted: bool, inputs: bool) -> Rule:
    wanted = required(kind)
    lacking = [*_missing_samples(report, policy), *_missing_proof(report, wanted, inputs=inputs)]
    if promoted:  # a run that ends without a promotion skips the later processes
        lacking += _missing_after_the_first_process(report, policy, wanted, inputs=inputs)
    text = f"The report contains all evidence that is required for a device of kind {kind}."
    if lacking:
        text = f"The report lacks evidence that is required for a device of kind {kind}: {'; '.join(lacking)}."
    return Rule(name="evidence", passed=not lacking, figure=float(len(lacking)), threshold=0.0, text=text)


def _missing_samples(report: ConfirmReport, policy: Policy) -> Iterator[str]:
    rounds = 0 if report.challenger is None else len(report.challenger.samples_us)
    if rounds < policy.least_rounds:
        yield f"{rounds} of at least {policy.least_rounds} rounds (challenger)"
    if report.challenger_again is None:
        yield "a second sample series of the challenger (challenger_again)"


def _missing_proof(report: ConfirmReport, required: RequiredEvidence, *, inputs: bool) -> Iterator[str]:
    yield from (f"environment.{name}" for name in required.environment if not report.environment.get(name))
    if not required.proof:
        return
    if not report.cases:
        yield "correctness cases (cases)"
    rounds = 0 if report.challenger is None else len(report.challenger.samples_us)
    if report.answers is None or report.answers.judged < rounds:  # each round checks at least one output
        judged = 0 if report.answers is None else report.answers.judged
        yield f"checked outputs of timed calls (answers: {judged} of at least {rounds})"
    if report.overwrite_check is None:
        yield "times on outputs that hold the expected result and on overwritten outputs (overwrite_check)"
    elif inputs and report.overwrite_check.repetition is None:
        yield "times on new inputs and on known inputs (overwrite_check.repetition)"


def _missing_after_the_first_process(
    report: ConfirmReport, policy: Policy, required: RequiredEvidence, *, inputs: bool
) -> Iterator[str]:
    if required.proof and not report.sanitizers:
        yield "findings of sanitizers, or why they did not run (sanitizers)"
    if not required.processes:
        return
    processes = len(report.repeats) + 1
    if processes < policy.confirm_processes:
        yield f"{processes} of {policy.confirm_processes} fresh processes (repeats)"
    for index, repeat in enumerate(report.repeats):
        rounds = len(repeat.challenger.samples_us)
        if rounds < policy.least_rounds:
            yield f"{rounds} of at least {policy.least_rounds} rounds (repeats.{index})"
        if required.proof and inputs and repeat.repetition is None:
            yield f"times on new inputs and on known inputs (repeats.{index}.repetition)"


def void_reason(verdict: Verdict | None, objective: Objective, *, refuted: str | None = None) -> str | None:
    """Return the reason why a champion's evidence is void; None if the evidence is still valid.

    Args:
        verdict: verdict of the champion's own confirmation; None if there is none.
        objective: the objective with which the champion was measured.
        refuted: reason why a later confirmation found that the kernel is wrong; None if none did.
    """
    if refuted is not None:
        return f"a later confirmation found that its kernel is wrong: {refuted}"
    if verdict is None or verdict.challenger is None:
        return "nothing was measured for its promotion"
    if not verdict.promote:
        return f"its own confirmation did not meet every rule: {' '.join(rule.text for rule in verdict.unmet)}"
    if objective.protocol != PROTOCOL_VERSION:
        return (
            f"it was measured under timing protocol {objective.protocol}, and this version measures under protocol "
            f"{PROTOCOL_VERSION}: the times are not comparable"
        )
    return None
