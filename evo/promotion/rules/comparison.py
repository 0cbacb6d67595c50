"""Rules about the samples: whether the challenger beats the incumbent by more than noise."""

from dataclasses import dataclass

import numpy as np

from evo.promotion.policy import Policy
from evo.promotion.prediction import Prediction
from evo.promotion.rules.processes import over_processes
from evo.promotion.statistics import Interval, Samples, hedges_g, order_interval, paired_p_value, ratio_interval
from evo.promotion.verdict import Rule, Words, change_text
from evo.text.wording import time_text
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing


def intervals_rule(ours: Samples, theirs: Samples, policy: Policy, words: Words) -> Rule:
    challenger, incumbent = (order_interval(series, policy.confidence) for series in (ours, theirs))
    passed = challenger.high < incumbent.low
    apart = "lie apart" if passed else "lie apart, but the incumbent is ahead"
    relation = "overlap" if challenger.overlaps(incumbent) else apart
    spans = f"challenger {_span(challenger, words)}, incumbent {_span(incumbent, words)}"
    text = f"After removing variation that both share, the {policy.confidence:.0%} intervals {relation}: {spans}."
    return Rule(name="intervals", passed=passed, figure=challenger.high, threshold=incumbent.low, text=text)


def effect_rule(challenger: Samples, incumbent: Samples, policy: Policy) -> Rule:
    effect = hedges_g(challenger, incumbent, trim=policy.effect_trim)
    needed = policy.minimum_effect
    text = (
        f"The effect size (Hedges' g, {policy.effect_trim:.0%} trimmed) is {effect:.3g}; at least {needed:g} is needed."
    )
    ahead = float(np.median(incumbent)) - float(np.median(challenger))
    if effect * ahead < 0:
        where, other = ("ahead", "behind") if effect > 0 else ("behind", "ahead")
        text += f" By its trimmed means the challenger is {where}, in the median of rounds, which gains are, {other}: "
        text += "their ratios are lopsided."
    return Rule(name="effect", passed=effect >= needed, figure=effect, threshold=needed, text=text)


def significance_rule(challenger: Timing, incumbent: Timing, policy: Policy, challengers: int) -> Rule:
    """Bonferroni correction, which unlike Holm's does not need the number of later challengers."""
    p_value = min(1.0, paired_p_value(challenger.samples_us, incumbent.samples_us) * max(1, challengers))
    counted = f"corrected for {challengers} challengers" if challengers > 1 else "one challenger"
    text = f"The paired test gives p = {p_value:.2g} ({counted}); at most {policy.significance:g} is allowed."
    passed = p_value <= policy.significance
    return Rule(name="significance", passed=passed, figure=p_value, threshold=policy.significance, text=text)


def gain_rule(gain: float, policy: Policy, prediction: Prediction | None, words: Words) -> Rule:
    needed = f"at least {policy.minimum_gain:.1%} less is needed"
    text = f"The challenger {words.takes} {change_text(gain)} {words.quantity}{over_processes(prediction)}; {needed}."
    passed = gain >= policy.minimum_gain
    return Rule(name="gain", passed=passed, figure=gain, threshold=policy.minimum_gain, text=text)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Difference between two series of one kernel, taken in the same rounds.

    Attributes:
        differ: the largest relative difference, round by round, that the session's interval admits.
        medians: relative difference of the two medians.
    """

    differ: float
    medians: float

    @property
    def words(self) -> str:
        medians = f", while their medians differ by {self.medians:.1%}" if self.medians > self.differ else ""
        return f"{self.differ:.1%}, compared round by round{medians}"


def noise_between(one: Timing, again: Timing | None, policy: Policy, rng: np.random.Generator) -> Noise | None:
    if again is None:
        return None
    ratio = ratio_interval(one.samples_us, again.samples_us, policy.confidence, rng)
    return Noise(differ=ratio.reach(1.0), medians=abs(one.median_us / again.median_us - 1.0))


def incumbent_rule(report: ConfirmReport, before: Timing | None, policy: Policy) -> tuple[Rule, ...]:
    """Refuse a promotion over an incumbent that is being slowed down; its slowest process decides.

    Args:
        before: the incumbent's own confirmation; None if unknown.
    """
    if before is None or report.incumbent is None:
        return ()
    others = (each.other for each in report.repeats if report.repeated_against == "incumbent")
    incumbent = max((report.incumbent, *filter(None, others)), key=lambda timing: timing.median_us)
    slower, limit = incumbent.median_us / before.median_us, policy.max_incumbent_slowdown
    passed = slower <= limit
    text = (
        f"The incumbent took {time_text(incumbent.median_us)}, {slower:.3g} times the {time_text(before.median_us)} of "
        f"its own confirmation; at most {limit:g} times is allowed"
    )
    if not passed:
        text += (
            ": something slows it, so a gain over it proves nothing. Search again on an idle device, or roll it back "
            "if it stays that slow"
        )
    return (Rule(name="incumbent", passed=passed, figure=slower, threshold=limit, text=f"{text}.", conclusive=passed),)


def noise_rule(gain: float, noise: Noise | None, prediction: Prediction | None) -> Rule:
    if noise is None:
        text = "The session's own noise is unknown: no second series of the challenger was taken."
        return Rule(name="noise", passed=False, figure=gain, threshold=1.0, text=text)
    passed = gain > noise.differ
    verb, where = "exceeds" if passed else "does not exceed", "" if prediction is None else " in the first process"
    text = (
        f"The gain of {gain:.1%}{where} {verb} what two series of the same kernel may differ by there: {noise.words}."
    )
    return Rule(name="noise", passed=passed, figure=gain, threshold=noise.differ, text=text)


def first_rules(noise: Noise | None, policy: Policy) -> tuple[Rule, ...]:
    text = "There is no incumbent: the first challenger confirmed becomes champion."
    first = Rule(name="first", passed=True, figure=0.0, threshold=0.0, text=text)
    if noise is None:
        return (first,)
    least, differ = policy.minimum_gain, noise.differ
    text = f"Two series of the same kernel may differ by {noise.words}; the policy counts gains from {least:.1%}."
    return first, Rule(name="noise", passed=differ <= least, figure=differ, threshold=least, text=text, required=False)


def _span(interval: Interval, words: Words) -> str:
    return f"{interval.estimate:.4g}{words.unit} ({interval.low:.4g} to {interval.high:.4g})"
