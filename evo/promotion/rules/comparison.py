"""Rules about the samples: the challenger must beat the incumbent by more than the noise."""

import numpy as np

from evo.promotion.policy import Policy
from evo.promotion.rules.base import Confirmation, Noise, rule
from evo.promotion.rules.processes import over_processes
from evo.promotion.statistics import Interval, hedges_g, order_interval, paired_p_value, ratio_interval, unshared
from evo.promotion.verdict import Rule, Words, change_text
from evo.text.wording import distinct, significant, time_text, times_text
from evo.trial.timing import Timing


@rule("intervals", about="rounds", rank=80)
def intervals_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    policy, words, theirs = confirmation.policy, confirmation.words, confirmation.theirs
    if theirs is None:
        return ()
    both = unshared(confirmation.ours.samples_us, theirs.samples_us)
    challenger, incumbent = (order_interval(series, policy.confidence) for series in both)
    passed = challenger.high < incumbent.low
    apart = "do not overlap" if passed else "do not overlap, but the incumbent is better"
    relation = "overlap" if challenger.overlaps(incumbent) else apart
    spans = f"challenger {_span(challenger, words)}, incumbent {_span(incumbent, words)}"
    text = f"Without the variation that both kernels share, the {policy.confidence:.0%} intervals {relation}: {spans}."
    return (Rule(name="intervals", passed=passed, figure=challenger.high, threshold=incumbent.low, text=text),)


@rule("effect", about="rounds", rank=90)
def effect_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    policy, theirs = confirmation.policy, confirmation.theirs
    if theirs is None:
        return ()
    challenger, incumbent = unshared(confirmation.ours.samples_us, theirs.samples_us)
    effect = hedges_g(challenger, incumbent, trim=policy.effect_trim)
    needed = policy.minimum_effect
    shown, least = distinct(effect, needed)
    text = f"The effect size (Hedges' g, {policy.effect_trim:.0%} trimmed) is {shown}; at least {least} is needed."
    ahead = float(np.median(incumbent)) - float(np.median(challenger))
    if effect * ahead < 0:
        where, other = ("better", "worse") if effect > 0 else ("worse", "better")
        text += f" The challenger is {where} in the trimmed mean, but {other} in the median over rounds, which "
        text += "determines the gain. The ratios of the rounds are skewed."
    return (Rule(name="effect", passed=effect >= needed, figure=effect, threshold=needed, text=text),)


@rule("significance", about="rounds", rank=100)
def significance_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Require that a paired test over the rounds shows the challenger to be faster than the incumbent.

    The p-value is corrected for the number of challengers with Bonferroni's method, because Holm's method needs the
    p-values of later challengers, too.
    """
    policy, challengers, theirs = confirmation.policy, confirmation.challengers, confirmation.theirs
    if theirs is None:
        return ()
    p_value = min(1.0, paired_p_value(confirmation.ours.samples_us, theirs.samples_us) * max(1, challengers))
    counted = f"corrected for {challengers} challengers" if challengers > 1 else "one challenger"
    shown, most = distinct(p_value, policy.significance, 2)
    text = f"The paired test gives p = {shown} ({counted}); at most {most} is allowed."
    passed = p_value <= policy.significance
    return (Rule(name="significance", passed=passed, figure=p_value, threshold=policy.significance, text=text),)


@rule("gain", about="processes", rank=110)
def gain_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    policy, words, prediction = confirmation.policy, confirmation.words, confirmation.prediction
    if confirmation.speedup is None:
        return ()
    gain = relative_gain(confirmation.speedup)
    shown, least = distinct(gain, policy.minimum_gain, 1, "%")
    needed, change = f"at least {least} less is needed", f"{shown} less" if gain >= 0 else change_text(gain)
    text = f"The challenger {words.takes} {change} {words.quantity}{over_processes(prediction)}; {needed}."
    passed = gain >= policy.minimum_gain
    return (Rule(name="gain", passed=passed, figure=gain, threshold=policy.minimum_gain, text=text),)


def noise_between(one: Timing, again: Timing | None, policy: Policy, rng: np.random.Generator) -> Noise | None:
    if again is None:
        return None
    ratio = ratio_interval(one.samples_us, again.samples_us, policy.confidence, rng)
    return Noise(differ=ratio.reach(1.0), medians=abs(one.median_us / again.median_us - 1.0))


@rule("incumbent", about="kernel", rank=70)
def incumbent_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Refuse a promotion if the incumbent is much slower in any process than in its own confirmation."""
    report, before, policy = confirmation.report, confirmation.before, confirmation.policy
    if before is None or report.incumbent is None or confirmation.theirs is None:
        return ()
    others = (each.other for each in report.repeats if report.repeated_against == "incumbent")
    incumbent = max((report.incumbent, *filter(None, others)), key=lambda timing: timing.median_us)
    slower, limit = incumbent.median_us / before.median_us, policy.max_incumbent_slowdown
    passed = slower <= limit
    text = (
        f"The incumbent took {time_text(incumbent.median_us)}, {times_text(slower, 'long')} as the "
        f"{time_text(before.median_us)} of its own confirmation; at most {limit:g} times is allowed"
    )
    if not passed:
        text += (
            ": a disturbance slows the incumbent, so a gain over its time is not reliable. Search again on an idle "
            "device. If the incumbent stays that slow, roll the incumbent back"
        )
    return (Rule(name="incumbent", passed=passed, figure=slower, threshold=limit, text=f"{text}.", conclusive=passed),)


@rule("noise", about="rounds", rank=120)
def noise_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    if confirmation.speedup_of_first is None:
        return _noise_without_incumbent(confirmation)
    gain, noise, prediction = relative_gain(confirmation.speedup_of_first), confirmation.noise, confirmation.prediction
    if noise is None:
        text = "The session's own noise is unknown: no second series of the challenger was taken."
        return (Rule(name="noise", passed=False, figure=gain, threshold=1.0, text=text),)
    passed = gain > noise.differ
    verb, where = "exceeds" if passed else "does not exceed", "" if prediction is None else " in the first process"
    text = f"The gain of {gain:.1%}{where} {verb} the possible difference of two series of one kernel: {noise.words}."
    return (Rule(name="noise", passed=passed, figure=gain, threshold=noise.differ, text=text),)


@rule("first", rank=75)
def first_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    if confirmation.theirs is not None:
        return ()
    text = "There is no incumbent to compare the challenger with."
    return (Rule(name="first", passed=True, figure=0.0, threshold=0.0, text=text),)


def _noise_without_incumbent(confirmation: Confirmation) -> tuple[Rule, ...]:
    noise, least = confirmation.noise, confirmation.policy.minimum_gain
    if noise is None:
        return ()
    text = f"Two series of the same kernel may differ by {noise.words}; the policy's minimum gain is {least:.1%}."
    passed = noise.differ <= least
    return (Rule(name="noise", passed=passed, figure=noise.differ, threshold=least, text=text, required=False),)


def relative_gain(speedup: Interval) -> float:
    """Return the fraction of the incumbent's time that a speed-up saves."""
    return 1.0 - 1.0 / speedup.estimate


def _span(interval: Interval, words: Words) -> str:
    estimate, low, high = map(significant, (interval.estimate, interval.low, interval.high))
    return f"{estimate}{words.unit} ({low} to {high})"
