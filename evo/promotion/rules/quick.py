"""The rule that warns of a large difference between the confirmed and the quick time."""

import math

from evo.promotion.policy import Policy
from evo.promotion.rules.base import Confirmation, Quick, rule
from evo.promotion.statistics import order_interval
from evo.promotion.verdict import QUICK_GAP, Rule
from evo.text.wording import factor_text, percent_text, time_text
from evo.trial.results import ConfirmReport


@rule(QUICK_GAP, rank=190)
def quick_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Warn if the confirmed median differs from the median of the quick samples.

    The rule never prevents a promotion. It warns if the difference exceeds `Policy.maximum_quick_gap` and the intervals
    of the two medians do not overlap.
    """
    quick, report, policy = confirmation.quick, confirmation.report, confirmation.policy
    challenger, most = report.challenger, policy.maximum_quick_gap
    if quick is None or challenger is None or most is None:
        return ()
    ratio = challenger.median_us / quick.timing.median_us
    before, now = (order_interval(each.samples_us, policy.confidence) for each in (quick.timing, challenger))
    passed = max(ratio, 1.0 / ratio) <= 1.0 + most or before.overlaps(now)
    times = f"{time_text(challenger.median_us)}, compared with {time_text(quick.timing.median_us)} in the quick samples"
    if passed:
        text = f"The confirmed time agrees with the quick time: {times}, {_change(ratio)}."
    else:
        reported = f"the policy reports a difference of more than {percent_text(most)}"
        text = f"The confirmed time is {times}, {_change(ratio)}; {reported}. {_reason(ratio, quick, report, policy)}"
    return (Rule(name=QUICK_GAP, passed=passed, figure=ratio, threshold=1.0 + most, text=text, required=False),)


def _change(ratio: float) -> str:
    if max(ratio, 1.0 / ratio) >= 1.5:
        return f"{factor_text(ratio)} as long" if ratio > 1.0 else f"{factor_text(1.0 / ratio)} as fast"
    return f"{abs(ratio - 1.0):.1%} {'more' if ratio >= 1.0 else 'less'}"


def _reason(ratio: float, quick: Quick, report: ConfirmReport, policy: Policy) -> str:
    """Return sentences with likely causes of the difference, and advice.

    The device is the likely cause if the time of the fastest baseline has changed, too.
    """
    shift = _shift(quick, report)
    if shift is None:
        return f"No baseline ran in both sessions, so the cause is unknown. {_likely_causes(ratio)}"
    name, changed = shift
    changed_text = f"{name} took {factor_text(changed)} its earlier time"
    if math.log(changed) / math.log(ratio) >= policy.session_share:
        return (
            f"{changed_text}, so the whole device changed: other programs, temperature, power limit or "
            "clocks. The speed-up within the confirmation still holds. Repeat the search on an idle device before you "
            "quote a time."
        )
    return f"{changed_text}, so the device does not explain the difference. {_likely_causes(ratio)}"


def _likely_causes(ratio: float) -> str:
    if ratio < 1.0:
        return (
            "Likely causes: the quick samples were disturbed by another program, or the kernel needs a longer warm-up. "
            "Other trials may be ranked too low for the same reason: repeat the search on an idle device."
        )
    return (
        "Likely causes: a kernel that is slower in a fresh process or on fresh inputs (threads that restart, caches "
        "or files that were warm), or quick samples that were too low by chance. Use the confirmed time, not the quick "
        "time; `kernel-evo measure` times the config alone."
    )


def _shift(quick: Quick, report: ConfirmReport) -> tuple[str, float] | None:
    """Return the name of the fastest baseline, and the ratio of its time in the confirmation to its time in the search.

    The result is None if no baseline was timed in both.
    """
    both = [name for name in report.baselines if name in quick.baselines]
    name = min(both, key=lambda each: report.baselines[each].median_us, default=None)
    return None if name is None else (name, report.baselines[name].median_us / quick.baselines[name].median_us)
