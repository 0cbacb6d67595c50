"""Rules that require all timed calls to do all their work, even if outputs already hold the result or inputs repeat."""

from evo.promotion.policy import Policy
from evo.promotion.rules.base import Confirmation, rule
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval, rounds_ratio
from evo.promotion.verdict import Rule, change_text
from evo.text.wording import times_text
from evo.trial.results import OverwriteCheck
from evo.trial.timing import Timing

_QUIET = "Search again while fewer other programs run on the machine."


def rework(check: OverwriteCheck, confidence: float = CONFIDENCE) -> Interval:
    """Return how many times as long a call takes on overwritten outputs as on outputs that already hold the result.

    The factor is the median over rounds, with its interval. A factor above 1 suggests that calls skip work.
    """
    return order_interval(rounds_ratio(check.poisoned.samples_us, check.answered.samples_us), confidence)


def straddles(check: OverwriteCheck, policy: Policy) -> bool:
    """Return True while more rounds are needed to decide whether calls skip more work than the policy allows."""
    most = 1.0 + policy.max_skipped
    return rework(check, policy.skip_confidence).low <= most < rework(check).high


@rule("work", about="kernel", rank=40)
def work_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Refuse a kernel if its calls do less work when the outputs already hold the result.

    If noise leaves the question undecided, the kernel is not promoted either. There is no rule for recordings.
    """
    report, policy = confirmation.report, confirmation.policy
    if report.overwrite_check is None:
        text = "It was not checked whether calls do less work if their outputs already hold the expected result."
        return (
            (Rule(name="work", passed=False, figure=0.0, threshold=policy.max_rework, text=text),)
            if report.cases
            else ()
        )
    found = rework(report.overwrite_check, policy.confidence)
    skips = rework(report.overwrite_check, policy.skip_confidence).low > 1.0 + policy.max_skipped
    bounded = found.estimate <= policy.max_rework and found.high <= policy.max_rework_bound
    passed = bounded and not skips and not report.overwrite_check.unclear
    return (
        Rule(
            name="work",
            passed=passed,
            figure=found.estimate,
            threshold=1.0 + policy.max_skipped if skips else policy.max_rework,
            text=_text(found, policy, skips=skips, passed=passed, unclear=report.overwrite_check.unclear),
            conclusive=passed or skips,
        ),
    )


@rule("rework", about="processes", rank=130)
def rework_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Require the minimum gain even if the time of possibly skipped work is added to the challenger's time."""
    report, policy, speedup, costs = (
        confirmation.report,
        confirmation.policy,
        confirmation.speedup,
        confirmation.costs,
    )
    if speedup is None or report.overwrite_check is None or report.challenger is None:
        return ()
    again = max(1.0, rework(report.overwrite_check, policy.confidence).estimate)
    grown = again if costs is None else costs.grown(report.challenger.median_us, again)
    left, needed = 1.0 - grown / speedup.estimate, policy.minimum_gain
    text = (
        f"Calls on outputs that do not hold the expected result take {times_text(again, 'long')}. With this included, "
        f"the challenger needs {change_text(left)} {confirmation.words.quantity} than the incumbent; at least "
        f"{needed:.1%} less is needed."
    )
    return (Rule(name="rework", passed=left >= needed, figure=left, threshold=needed, text=text),)


@rule("inputs", about="kernel", rank=50)
def inputs_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Refuse a kernel that is faster on inputs that it received before, because it may return stored results.

    On a busy machine, calls on new inputs may be slow for other reasons. If the times vary too much, the rule is
    undecided.
    """
    check, policy = confirmation.report.overwrite_check, confirmation.policy
    if check is None or check.repetition is None:
        return ()
    repetition, changing = check.repetition, check.changing
    few = repetition.elements <= policy.few_elements
    limit = policy.max_repeat_ratio_of_few if few else policy.max_repeat_ratio
    compared = [("on new inputs takes {} as a call on inputs that were timed before", repetition.new, repetition.known)]
    if changing is not None:
        text = "whose inputs change between consecutive calls takes {} as a call whose inputs are rewritten unchanged"
        compared.append((text, changing.different, changing.same))
    found = [_input_rule(text, slow, fast, limit, policy) for text, slow, fast in compared]
    return (min(found, key=lambda rule: (rule.passed, not rule.conclusive)),)


def _input_rule(words: str, slow: Timing, fast: Timing, limit: float, policy: Policy) -> Rule:
    ratio = order_interval(rounds_ratio(slow.samples_us, fast.samples_us), policy.confidence)
    passed = ratio.estimate <= limit
    noisy = slow.unsteady or fast.unsteady
    proved = ratio.low > limit * (policy.noisy_repeat_factor if noisy else 1.0)
    text = (
        f"A call {words.format(times_text(ratio.estimate, 'long'))} "
        f"({policy.confidence:.0%}: {ratio.low:.3g} to {ratio.high:.3g}; at most {limit:g} is allowed)."
    )
    if proved:
        text += " The challenger does less work if inputs repeat, as in a timed loop."
    elif not passed:
        text = f"Too noisy to tell whether calls do less work if inputs repeat: a{text[1:]} {_QUIET}"
    return Rule(
        name="inputs", passed=passed, figure=ratio.estimate, threshold=limit, text=text, conclusive=passed or proved
    )


def _text(found: Interval, policy: Policy, *, skips: bool, passed: bool, unclear: str) -> str:
    span = f"{policy.confidence:.0%}: {found.low:.3g} to {found.high:.3g}"
    takes = f"a call on outputs that do not hold the expected result takes {times_text(found.estimate, 'long')}"
    if passed:
        return f"A{takes[1:]} ({span}; at most {policy.max_rework:g} is allowed)."
    if skips:
        what = "The challenger does less work if its outputs already hold the expected result"
        sure = f"more than {1.0 + policy.max_skipped:g} with {policy.skip_confidence:.1%} confidence"
        return f"{what}: {takes} ({span}; {sure})."
    if unclear:
        why = "The device was busy with other programs, which may be the reason. Search again while the device is idle"
        return f"Too noisy to tell whether calls do less work when they are repeated: {unclear}. {why}."
    what = "Too noisy to tell whether calls do less work if their outputs already hold the expected result"
    allowed = f"at most {policy.max_rework:g} is allowed, and an interval up to {policy.max_rework_bound:g}"
    return f"{what}: {takes} ({span}; {allowed}). {_QUIET}"
