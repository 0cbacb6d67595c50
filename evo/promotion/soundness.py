"""Rules that no speed makes up for: the challenger is correct, does nothing forbidden, and uses the device as asked."""

from evo.job import ConfirmReport
from evo.policy import Policy
from evo.profile import unmet_gates
from evo.promotion.verdict import Rule


def rolled_back_rule(rolled_back: str | None) -> tuple[Rule, ...]:
    """What a person took back, for a reason that samples may not show, only a person gives again."""
    if rolled_back is None:
        return ()
    text = (
        f"This very kernel was {rolled_back}. No search promotes it again; `kernel-evo champion restore` brings that "
        "champion back."
    )
    return (Rule(name="rolled back", passed=False, figure=1.0, threshold=0.0, text=text),)


def correctness_rule(report: ConfirmReport) -> tuple[Rule, ...]:
    if not report.cases:
        return ()
    wrong = [case for case in report.cases if not case.passed]
    left_out = f"; it has no kernel for {', '.join(report.uncovered)}" if report.uncovered else ""
    text = f"All {len(report.cases)} correctness checks passed on fresh inputs{left_out}."
    if wrong:
        text = f"{len(wrong)} of {len(report.cases)} correctness checks failed on fresh inputs, first {wrong[0].case}."
    return (Rule(name="correct", passed=not wrong, figure=float(len(wrong)), threshold=0.0, text=text),)


def answers_rule(report: ConfirmReport) -> tuple[Rule, ...]:
    """A kernel that is wrong now and then is wrong. A recording has no answers, and no cases."""
    if report.answers is None:
        text = "Whether timed calls gave right answers was not looked at."
        return (Rule(name="answers", passed=False, figure=0.0, threshold=0.0, text=text),) if report.cases else ()
    wrong, calls = report.answers.wrong, f"{report.answers.judged:,} timed calls that were judged gave"
    text = f"All {calls} the right answer."
    if wrong:
        text = f"{wrong:,} of {calls} a wrong answer, first {report.answers.first}."
    return (Rule(name="answers", passed=not wrong, figure=float(wrong), threshold=0.0, text=text),)


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
