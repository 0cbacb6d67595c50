"""Rules that no speed-up can outweigh: correctness, sanitizers, and profiler gates."""

from evo.promotion.policy import Policy
from evo.promotion.rules.base import Confirmation, rule
from evo.promotion.rules.profile import unmet_gates
from evo.promotion.statistics import at_most_one_in
from evo.promotion.verdict import Rule
from evo.text.wording import count_text
from evo.trial.results import OutputChecks, Sanitized


@rule("rolled back", about="kernel", rank=10)
def rolled_back_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Refuse a kernel that a person rolled back: samples may not show the reason, so only a person may restore it."""
    rolled_back = confirmation.rolled_back
    if rolled_back is None:
        return ()
    text = (
        f"This kernel was {rolled_back}. No search promotes it again; `kernel-evo champion restore` restores that "
        "champion."
    )
    return (Rule(name="rolled back", passed=False, figure=1.0, threshold=0.0, text=text),)


@rule("correct", about="kernel", rank=20)
def correctness_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    report = confirmation.report
    if not report.cases:
        return ()
    wrong = [case for case in report.cases if not case.passed]
    left_out = f"; the kernel does not support the cases {', '.join(report.uncovered)}" if report.uncovered else ""
    text = f"All {len(report.cases)} correctness checks passed on fresh inputs{left_out}."
    if wrong:
        text = f"{len(wrong)} of {len(report.cases)} correctness checks failed on fresh inputs, first {wrong[0].case}."
    return (Rule(name="correct", passed=not wrong, figure=float(len(wrong)), threshold=0.0, text=text),)


@rule("answers", about="kernel", rank=30)
def answers_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Refuse a kernel if a checked output of its timed calls is wrong; else report which error rate is excluded.

    There is no rule for recordings, whose outputs are not checked.
    """
    report, policy = confirmation.report, confirmation.policy
    if report.answers is None:
        text = "The outputs of timed calls were not checked."
        return (Rule(name="answers", passed=False, figure=0.0, threshold=0.0, text=text),) if report.cases else ()
    wrong, calls = report.answers.wrong, f"{report.answers.judged:,} checked timed calls gave"
    if wrong:
        text = f"{wrong:,} of {calls} a wrong answer, first {report.answers.first}."
        return (Rule(name="answers", passed=False, figure=float(wrong), threshold=0.0, text=text),)
    rule = Rule(name="answers", passed=True, figure=0.0, threshold=0.0, text=_right_text(report.answers, policy))
    return (rule, *_bound_rule(report.answers, policy))


def _right_text(answers: OutputChecks, policy: Policy) -> str:
    """Return a sentence that states that all checked outputs were right, and the error rates that this excludes."""
    calls = at_most_one_in(answers.judged, policy.confidence)
    inputs = at_most_one_in(answers.inputs, policy.confidence)
    text = f"All {answers.judged:,} checked timed calls returned correct outputs"
    if calls <= 1:
        return f"{text}. They are too few to state how rare wrong calls are."
    text += f": fewer than 1 call in {calls:,} is wrong"
    if inputs > 1:
        text += f", and, according to {answers.inputs:,} different inputs, fewer than 1 input in {inputs:,}"
    return f"{text} ({policy.confidence:.0%} confidence)."


def _bound_rule(answers: OutputChecks, policy: Policy) -> tuple[Rule, ...]:
    """Require that the checked calls exclude the error rate of the policy's `min_calls_per_error`, if it is set."""
    needed = policy.min_calls_per_error
    if needed is None:
        return ()
    found = at_most_one_in(answers.judged, policy.confidence)
    text = (
        f"According to {answers.judged:,} checked calls, fewer than 1 call in {found:,} is wrong; the policy requires "
        f"fewer than 1 in {needed:,}. To check more calls, raise `judged_calls`, `confirm_samples` or "
        "`measure_timeout_s`."
    )
    passed = found >= needed
    return (Rule(name="wrong calls", passed=passed, figure=float(found), threshold=float(needed), text=text),)


@rule("sanitizers", about="kernel", rank=60)
def sanitizer_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    report, policy = confirmation.report, confirmation.policy
    ran = [each for each in report.sanitizers if each.skipped is None]
    findings = [f"{each.tool}: {finding}" for each in report.sanitizers for finding in each.findings]
    if findings:
        text = f"Sanitizers found {len(findings)} fault{'s' * (len(findings) > 1)}, first {findings[0]}."
    elif ran:
        text = f"Sanitizers found no fault: {', '.join(map(_ran_text, ran))}."
    else:
        reasons = "; ".join(f"{each.tool}: {each.skipped}" for each in report.sanitizers) or "this device has none"
        text = f"No sanitizer ran ({reasons})."
    required, passed = bool(ran) or policy.require_sanitizers, bool(ran) and not findings
    return (Rule(name="sanitizers", passed=passed, figure=len(findings), threshold=0.0, text=text, required=required),)


def _ran_text(ran: Sanitized) -> str:
    if not ran.cases:
        return ran.tool
    left_out = f", no time for {', '.join(ran.left_out)}" if ran.left_out else ""
    return f"{ran.tool} ({count_text(len(ran.cases), 'case')}{left_out})"


@rule("profile", about="kernel", rank=160)
def profile_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    report, policy = confirmation.report, confirmation.policy
    unmet = unmet_gates(report.profiles, policy)
    if unmet is None and not policy.require_profile:
        return ()
    profile = report.profiles.get("challenger")
    if profile is None or profile.skipped is not None:
        reason = "this device has no profiler" if profile is None else f"{profile.tool}: {profile.skipped}"
        text = f"No profile was taken ({reason})."
        required = policy.require_profile
        return (Rule(name="profile", passed=False, figure=0.0, threshold=0.0, text=text, required=required),)
    missed = f"The profile does not meet: {'; '.join(unmet or ())}."
    text = missed if unmet else "The profile meets every gate of the policy."
    return (Rule(name="profile", passed=not unmet, figure=float(len(unmet or ())), threshold=0.0, text=text),)
