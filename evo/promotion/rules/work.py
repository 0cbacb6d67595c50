"""Rules that require all timed calls to do all their work, even if outputs already hold the result or inputs repeat."""

import math
from dataclasses import replace

from evo.promotion.policy import Policy
from evo.promotion.rules.base import Confirmation, rule
from evo.promotion.statistics import CONFIDENCE, Interval, order_interval, rounds_ratio
from evo.promotion.verdict import Rule, change_text
from evo.text.wording import times_text
from evo.trial.results import Changing, OverwriteCheck, Repetition
from evo.trial.timing import Timing

_QUIET = "Search again while fewer other programs run on the machine."
_EITHER = (
    "Either the kernel or other programs are the cause: search again while the machine is idle. If an idle machine "
    "gives the same result, the kernel is probably the cause. A kernel whose work depends on the values of its inputs "
    "may also be refused: let inputs() in reference.py draw inputs that need about the same work."
)


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

    Every process is checked. The worst result counts. On a busy machine, calls on new inputs may be slow for other
    reasons. If the times vary too much, the rule is undecided.
    """
    report, policy = confirmation.report, confirmation.policy
    if report.overwrite_check is None or report.overwrite_check.repetition is None:
        return ()
    first, changing = report.overwrite_check.repetition, report.overwrite_check.changing
    calls = [first, *(repeat.repetition for repeat in report.repeats)]
    found = [_repetition_rule(each, number, policy) for number, each in enumerate(calls, 1) if each is not None]
    if changing is not None:
        found.append(_changing_rule(changing, repeat_limit(first.elements, policy), policy))
    return (min(found, key=lambda rule: (rule.passed, not rule.conclusive, -rule.figure)),)


def _repetition_rule(calls: Repetition, process: int, policy: Policy) -> Rule:
    """Compare the fastest samples on new and on known inputs.

    A kernel that stores outputs may use them only in some samples, so that the medians are equal. Other programs only
    make calls slower, so they change the fastest samples least. They may still have disturbed all samples on new
    inputs, and only some on known inputs. The kernel is refuted only if this is improbable.
    """
    ratio, limit = min(calls.new.samples_us) / min(calls.known.samples_us), repeat_limit(calls.elements, policy)
    needed = limit * _noise_factor(calls.new, calls.known, policy)
    proved = ratio > needed and _chance(calls.new, calls.known, needed) <= 1.0 - policy.skip_confidence
    text = (
        f"In process {process}, a call on new inputs takes {times_text(ratio, 'long')} as a call on inputs that were "
        f"timed before (fastest of {len(calls.new.samples_us)} samples each; at most {limit:g} is allowed)."
    )
    rule = _input_rule(ratio, limit, proved=proved, text=text)
    if calls.unclear and (rule.passed or not rule.conclusive):
        text = f"In process {process}, calls may do less work if inputs repeat: {calls.unclear}. {_EITHER}"
        return replace(rule, passed=False, conclusive=False, text=text)
    return rule


def _chance(new: Timing, known: Timing, factor: float) -> float:
    """Return the probability that all samples on new inputs are slow if slow samples are distributed at random.

    A sample on known inputs is fast if the fastest sample on new inputs takes more than `factor` times as long. All
    other samples are slow. All distributions of the slow samples over both series are equally probable.
    """
    fastest, drawn = min(new.samples_us), len(new.samples_us)
    slow = drawn + sum(factor * each >= fastest for each in known.samples_us)
    return math.comb(slow, drawn) / math.comb(drawn + len(known.samples_us), drawn)


def _changing_rule(changing: Changing, limit: float, policy: Policy) -> Rule:
    """Compare calls whose inputs change with calls whose inputs are rewritten unchanged.

    The medians over rounds are compared, because a sample is fast if few writes happen during the calls.
    """
    ratio = order_interval(rounds_ratio(changing.different.samples_us, changing.same.samples_us), policy.confidence)
    needed = limit * _noise_factor(changing.different, changing.same, policy)
    text = (
        f"A call whose inputs change between consecutive calls takes {times_text(ratio.estimate, 'long')} as a call "
        f"whose inputs are rewritten unchanged ({policy.confidence:.0%}: {ratio.low:.3g} to {ratio.high:.3g}; at most "
        f"{limit:g} is allowed)."
    )
    return _input_rule(ratio.estimate, limit, proved=ratio.low > needed, text=text)


def _noise_factor(slow: Timing, fast: Timing, policy: Policy) -> float:
    """Return the factor by which a ratio must exceed its limit so that noise cannot be the cause."""
    return policy.noisy_repeat_factor if slow.unsteady or fast.unsteady else 1.0


def repeat_limit(elements: int, policy: Policy) -> float:
    """Return how many times as long a call on new inputs may take as a call on known inputs.

    Args:
        elements: total number of elements of all inputs of one call.
    """
    return policy.max_repeat_ratio_of_few if elements <= policy.few_elements else policy.max_repeat_ratio


def _input_rule(ratio: float, limit: float, *, proved: bool, text: str) -> Rule:
    passed = ratio <= limit
    if proved:
        text += " The challenger does less work if inputs repeat, as in a timed loop."
    elif not passed:
        text += f" The challenger may do less work if inputs repeat, as in a timed loop. {_EITHER}"
    return Rule(name="inputs", passed=passed, figure=ratio, threshold=limit, text=text, conclusive=passed or proved)


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
        return f"Calls may do less work when they are repeated: {unclear}. {_EITHER}"
    what = "Too noisy to tell whether calls do less work if their outputs already hold the expected result"
    allowed = f"at most {policy.max_rework:g} is allowed, and an interval up to {policy.max_rework_bound:g}"
    return f"{what}: {takes} ({span}; {allowed}). {_QUIET}"
