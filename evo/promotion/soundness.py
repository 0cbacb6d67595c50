"""Rules that no speed makes up for: the challenger is correct, does nothing forbidden, and uses the device as asked."""

import numpy as np

from evo.job import ConfirmReport, Witness
from evo.policy import Policy
from evo.profile import unmet_gates
from evo.promotion.verdict import Rule
from evo.statistics import Interval, order_interval


def rolled_back_rule(rolled_back: str | None) -> tuple[Rule, ...]:
    """What a person took back, for a reason that samples may not show, only a person gives again."""
    if rolled_back is None:
        return ()
    text = (
        f"This very kernel was {rolled_back}. No search promotes it again; who wants it back promotes that champion, "
        "with a reason (POST /champions/ID/promote)."
    )
    return (Rule(name="rolled back", passed=False, figure=1.0, threshold=0.0, text=text),)


def correctness_rule(report: ConfirmReport) -> tuple[Rule, ...]:
    if not report.cases:
        return ()
    wrong = [case for case in report.cases if not case.passed]
    text = f"All {len(report.cases)} correctness checks passed on fresh inputs."
    if wrong:
        text = f"{len(wrong)} of {len(report.cases)} correctness checks failed on fresh inputs, first {wrong[0].case}."
    return (Rule(name="correct", passed=not wrong, figure=float(len(wrong)), threshold=0.0, text=text),)


MOST_REWORK = 1.1
"""How many times as long a call may take on poisoned outputs as on outputs that hold the answer. Whoever skips nothing
takes equally long; this leaves room for noise."""


def work_rule(report: ConfirmReport, policy: Policy) -> tuple[Rule, ...]:
    """Both comparisons have to find it: their copies come from different places. A recording has none, and no cases."""
    if not report.witnesses and not report.cases:
        return ()
    if not report.witnesses or report.challenger is None:
        text = "Whether calls do less work where their outputs hold the answer already was not looked at."
        return (Rule(name="work", passed=False, figure=0.0, threshold=MOST_REWORK, text=text),)
    usual_us = report.challenger.median_us
    found = (_rework(witness, usual_us, policy) for witness in report.witnesses)
    rework = min(found, key=lambda interval: interval.low)
    passed, poisoned_us = rework.low <= MOST_REWORK, rework.estimate * usual_us
    text = f"A call takes {rework.estimate:.3g} times as long on poisoned outputs as where they hold the answer already"
    if not passed:
        text = (
            "The challenger does less work where its outputs hold the answer already: "
            f"{usual_us:.3g} µs a call against {poisoned_us:.3g} µs on poisoned outputs, {rework.estimate:.3g} times"
        )
    said = f"{text} (at least {rework.low:.3g}; at most {MOST_REWORK:g} is allowed)."
    return (Rule(name="work", passed=passed, figure=rework.low, threshold=MOST_REWORK, text=said),)


def _rework(witness: Witness, usual_us: float, policy: Policy) -> Interval:
    """The copies cancel in the difference of a round; what is left adds to the call's usual time."""
    extra_us = np.subtract(witness.poisoned.samples_us, witness.answered.samples_us)
    return order_interval(1.0 + extra_us / usual_us, policy.confidence)


def sanitizer_rule(report: ConfirmReport, policy: Policy) -> Rule:
    ran = [each for each in report.sanitizers if each.skipped is None]
    findings = [f"{each.tool}: {finding}" for each in report.sanitizers for finding in each.findings]
    if findings:
        text = f"Sanitizers found {len(findings)} fault{'s' * (len(findings) > 1)}, first {findings[0]}."
    elif ran:
        text = f"Sanitizers found nothing: {', '.join(each.tool for each in ran)}."
    else:
        reasons = "; ".join(f"{each.tool}: {each.skipped}" for each in report.sanitizers) or "this device has none"
        text = f"No sanitizer ran ({reasons})."
    required, passed = bool(ran) or policy.require_sanitizers, bool(ran) and not findings
    return Rule(name="sanitizers", passed=passed, figure=len(findings), threshold=0.0, text=text, required=required)


def profile_rule(report: ConfirmReport, policy: Policy) -> tuple[Rule, ...]:
    unmet = unmet_gates(report.profiles, policy)
    if unmet is None and not policy.require_profile:
        return ()
    profile = report.profiles.get("challenger")
    if profile is None or profile.skipped is not None:
        reason = "this device has no profiler" if profile is None else f"{profile.tool}: {profile.skipped}"
        text = f"No profile was taken ({reason})."
        required = policy.require_profile
        return (Rule(name="profile", passed=False, figure=0.0, threshold=0.0, text=text, required=required),)
    text = f"The profile misses {'; '.join(unmet)}." if unmet else "The profile meets every gate of the policy."
    return (Rule(name="profile", passed=not unmet, figure=float(len(unmet or ())), threshold=0.0, text=text),)
