"""Whether a confirmed challenger becomes champion: every rule with its figure, its threshold and a sentence."""

from dataclasses import dataclass, replace

import numpy as np

from evo.explain import detail_text, first_lines
from evo.job import ConfirmReport
from evo.policy import Policy
from evo.prediction import Prediction, fastest_baseline, predict
from evo.profile import unmet_gates
from evo.statistics import (
    Interval,
    Samples,
    hedges_g,
    order_interval,
    paired_p_value,
    ratio_interval,
    unshared,
)
from evo.timing import Timing

TRIM = 0.2
"""Effect sizes are judged on trimmed samples: on a shared machine a few interrupted samples would hide any gain."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One condition of a promotion, stated whether or not it was met.

    Attributes:
        figure: what was found, in the unit of `threshold` (µs, a fraction, a probability or a count).
        required: False for what is reported and does not decide.
    """

    name: str
    passed: bool
    figure: float
    threshold: float
    text: str
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a confirmation came to.

    Attributes:
        promote: all required rules passed.
        challenger, incumbent: median in µs with its interval; None where it was not measured or does not exist.
        speedup: incumbent time over challenger time, paired by round; above 1 the challenger is faster. Where several
            processes compared the two, that over all of them, with its interval over processes.
        baseline: the fastest baseline of this session; `baseline_speedup` is over it, in the same sense.
        first_process: what the first process by itself found of the speed-up that several were asked for, with the
            interval of its rounds; None where one process is all there is.
        behind_every_baseline: not even the slowest baseline was slower than the challenger.
        prediction: of the speed-up in further processes; None where the challenger was compared in one alone.
    """

    promote: bool
    summary: str
    rules: tuple[Rule, ...]
    challenger: Interval | None = None
    incumbent: Interval | None = None
    speedup: Interval | None = None
    baseline: str | None = None
    baseline_speedup: Interval | None = None
    behind_every_baseline: bool = False
    prediction: Prediction | None = None
    first_process: Interval | None = None

    @property
    def processes(self) -> int:
        """How many fresh processes the speed-up over the incumbent, or without one that over the baseline, is from."""
        return 1 if self.prediction is None or self.prediction.overall is None else len(self.prediction.found)

    @property
    def baseline_processes(self) -> int:
        """How many the speed-up over the fastest baseline is from."""
        compared = self.prediction is not None and self.prediction.against == self.baseline
        return self.processes if compared else 1


def promising(report: ConfirmReport, policy: Policy) -> bool:
    """Whether the samples alone would make a champion: then sanitizers, profiler and further processes are worth it."""
    lenient = replace(policy, require_sanitizers=False, require_profile=False)
    return judge(report, lenient, 1, np.random.default_rng(0)).promote


def judge(report: ConfirmReport, policy: Policy, challengers: int, rng: np.random.Generator) -> Verdict:
    """Apply the policy's rules to one confirmation.

    Args:
        report: interleaved samples; without an incumbent the challenger becomes the first champion.
        challengers: how many challengers this search has confirmed, this one included (corrects the p-value).
        rng: seeds the bootstrap; the same generator state gives the same verdict.
    """
    challenger = report.challenger
    if report.failure is not None or challenger is None:
        return _not_measured(report)
    prediction = predict(report, policy)
    alone = {name: _speedup(challenger, timing, policy, rng) for name, timing in report.baselines.items()}
    against = {name: _overall(prediction, name, speedup) for name, speedup in alone.items()}
    fastest = fastest_baseline(report)
    median, incumbent, speedup = order_interval(challenger.samples_us, policy.confidence), None, None
    noise = _noise(challenger, report.challenger_again, policy, rng)
    if report.incumbent is None:
        rules = _first_rules(noise, policy)
    else:
        incumbent = order_interval(report.incumbent.samples_us, policy.confidence)
        apart = unshared(challenger.samples_us, report.incumbent.samples_us)
        alone["incumbent"] = _speedup(challenger, report.incumbent, policy, rng)
        speedup = _overall(prediction, "incumbent", alone["incumbent"])
        rules = (
            _intervals_rule(*apart, policy),
            _effect_rule(*apart, policy),
            _significance_rule(challenger, report.incumbent, policy, challengers),
            _gain_rule(_gain(speedup), policy, prediction),
            _noise_rule(_gain(alone["incumbent"]), noise, prediction),
        )
    rules = (
        *_correctness_rule(report),
        _sanitizer_rule(report, policy),
        *rules,
        *_prediction_rule(prediction),
        *_agreement_rule(prediction),
        *_profile_rule(report, policy),
        *_baseline_rule(fastest, against, prediction),
    )
    promote = all(rule.passed for rule in rules if rule.required)
    return Verdict(
        promote=promote,
        summary=_summary(promote, rules, speedup),
        rules=rules,
        challenger=median,
        incumbent=incumbent,
        speedup=speedup,
        baseline=fastest,
        baseline_speedup=None if fastest is None else against[fastest],
        behind_every_baseline=bool(against) and all(ratio.estimate < 1.0 for ratio in against.values()),
        prediction=prediction,
        first_process=None if prediction is None else alone[prediction.against],
    )


def _gain(speedup: Interval) -> float:
    return 1.0 - 1.0 / speedup.estimate


def _overall(prediction: Prediction | None, against: str, alone: Interval) -> Interval:
    """The speed-up over all processes where several compared these two, else that of the one there is."""
    if prediction is None or prediction.against != against or prediction.overall is None:
        return alone
    return prediction.overall


def _speedup(challenger: Timing, other: Timing, policy: Policy, rng: np.random.Generator) -> Interval:
    return ratio_interval(other.samples_us, challenger.samples_us, policy.confidence, rng)


@dataclass(frozen=True, kw_only=True)
class _Noise:
    """Two series of one kernel beside each other.

    Attributes:
        differ: the largest relative difference, round by round, that the session's interval admits.
        medians: by how much the two medians differ, each taken by itself.
    """

    differ: float
    medians: float

    @property
    def words(self) -> str:
        beside = f", while their medians differ by {self.medians:.1%}" if self.medians > self.differ else ""
        return f"{self.differ:.1%}, compared round by round{beside}"


def _noise(one: Timing, again: Timing | None, policy: Policy, rng: np.random.Generator) -> _Noise | None:
    if again is None:
        return None
    ratio = ratio_interval(one.samples_us, again.samples_us, policy.confidence, rng)
    return _Noise(differ=ratio.reach(1.0), medians=abs(one.median_us / again.median_us - 1.0))


def _not_measured(report: ConfirmReport) -> Verdict:
    which = report.failed or "challenger"
    reason, detail = "no samples came back", ""
    if report.failure is not None:
        reason = report.failure.kind.replace("_", " ")
        detail = first_lines(detail_text(report.failure), 1)
    way_out = "; roll it back if it fails again" if which == "incumbent" else ""
    text = f"The {which} could not be measured in a fresh process ({reason}){way_out}. {detail}".rstrip()
    rule = Rule(name="measured", passed=False, figure=0.0, threshold=1.0, text=text)
    return Verdict(promote=False, summary=f"Not promoted. {text}", rules=(rule,))


def _correctness_rule(report: ConfirmReport) -> tuple[Rule, ...]:
    if not report.cases:
        return ()
    wrong = [case for case in report.cases if not case.passed]
    text = f"All {len(report.cases)} correctness checks passed on fresh inputs."
    if wrong:
        text = f"{len(wrong)} of {len(report.cases)} correctness checks failed on fresh inputs, first {wrong[0].case}."
    return (Rule(name="correct", passed=not wrong, figure=float(len(wrong)), threshold=0.0, text=text),)


def _sanitizer_rule(report: ConfirmReport, policy: Policy) -> Rule:
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


def _intervals_rule(ours: Samples, theirs: Samples, policy: Policy) -> Rule:
    challenger, incumbent = (order_interval(series, policy.confidence) for series in (ours, theirs))
    passed = challenger.high < incumbent.low
    apart = "lie apart" if passed else "lie apart, but the incumbent is ahead"
    relation = "overlap" if challenger.overlaps(incumbent) else apart
    spans = f"challenger {_span(challenger)}, incumbent {_span(incumbent)}"
    text = f"Without what both suffered together, the {policy.confidence:.0%} intervals {relation}: {spans}."
    return Rule(name="intervals", passed=passed, figure=challenger.high, threshold=incumbent.low, text=text)


def _effect_rule(challenger: Samples, incumbent: Samples, policy: Policy) -> Rule:
    effect = hedges_g(challenger, incumbent, trim=TRIM)
    needed = policy.minimum_effect
    text = f"The effect size (Hedges' g, {TRIM:.0%} trimmed) is {effect:.3g}; at least {needed:g} is needed."
    return Rule(name="effect", passed=effect >= needed, figure=effect, threshold=needed, text=text)


def _significance_rule(challenger: Timing, incumbent: Timing, policy: Policy, challengers: int) -> Rule:
    """Bonferroni, which unlike Holm needs no knowledge of the challengers still to come."""
    p_value = min(1.0, paired_p_value(challenger.samples_us, incumbent.samples_us) * max(1, challengers))
    counted = f"corrected for {challengers} challengers" if challengers > 1 else "one challenger"
    text = f"The paired test gives p = {p_value:.2g} ({counted}); at most {policy.significance:g} is allowed."
    passed = p_value <= policy.significance
    return Rule(name="significance", passed=passed, figure=p_value, threshold=policy.significance, text=text)


def _gain_rule(gain: float, policy: Policy, prediction: Prediction | None) -> Rule:
    needed = f"at least {policy.minimum_gain:.1%} less is needed"
    text = f"The challenger takes {_change(gain)} time{_over(prediction)}; {needed}."
    passed = gain >= policy.minimum_gain
    return Rule(name="gain", passed=passed, figure=gain, threshold=policy.minimum_gain, text=text)


def _noise_rule(gain: float, noise: _Noise | None, prediction: Prediction | None) -> Rule:
    if noise is None:
        text = "The session's own noise is unknown: no second series of the challenger was taken."
        return Rule(name="noise", passed=False, figure=gain, threshold=1.0, text=text)
    passed = gain > noise.differ
    verb, where = "exceeds" if passed else "does not exceed", "" if prediction is None else " in the first process"
    text = (
        f"The gain of {gain:.1%}{where} {verb} what two series of the same kernel may differ by there: {noise.words}."
    )
    return Rule(name="noise", passed=passed, figure=gain, threshold=noise.differ, text=text)


def _first_rules(noise: _Noise | None, policy: Policy) -> tuple[Rule, ...]:
    text = "There is no incumbent: the first challenger confirmed becomes champion."
    first = Rule(name="first", passed=True, figure=0.0, threshold=0.0, text=text)
    if noise is None:
        return (first,)
    least, differ = policy.minimum_gain, noise.differ
    text = f"Two series of the same kernel may differ by {noise.words}; the policy counts gains from {least:.1%}."
    return first, Rule(name="noise", passed=differ <= least, figure=differ, threshold=least, text=text, required=False)


def _prediction_rule(prediction: Prediction | None) -> tuple[Rule, ...]:
    """What is not faster on average over fresh processes does not replace an incumbent."""
    if prediction is None:
        return ()
    speedup, found = prediction.speedup, prediction.found
    passed = speedup.estimate > 1.0
    slower = f"; a single process may take up to {1.0 / speedup.low - 1.0:.1%} more time" if speedup.low < 1.0 else ""
    text = (
        f"In {len(found)} fresh processes the challenger ran {min(found):.3g} to {max(found):.3g} times as fast as "
        f"{_named(prediction.against)}, {speedup.estimate:.3g} times on average; one more will find "
        f"{speedup.low:.3g} to {speedup.high:.3g} ({prediction.confidence:.0%} prediction interval){slower}."
    )
    required = prediction.against == "incumbent"
    return (
        Rule(name="processes", passed=passed, figure=speedup.estimate, threshold=1.0, text=text, required=required),
    )


def _agreement_rule(prediction: Prediction | None) -> tuple[Rule, ...]:
    """Warns only: of sound challengers, too, one in twenty lies outside a 95 % interval (decision 51)."""
    if prediction is None or prediction.others is None:
        return ()
    first, others, count = prediction.found[0], prediction.others, len(prediction.found) - 1
    expected = f"the {others.low:.3g} to {others.high:.3g} that the other {count} predict"
    text = f"The first process found {first:.3g} times as fast, within {expected}."
    if not prediction.agrees:
        text = (
            f"The first process and the others disagree: it found {first:.3g} times as fast, outside {expected}, so "
            "rules about its own samples say less here than the figures over all processes."
        )
    bound = others.low if first < others.estimate else others.high
    return (Rule(name="agreement", passed=prediction.agrees, figure=first, threshold=bound, text=text, required=False),)


def _over(prediction: Prediction | None) -> str:
    return "" if prediction is None else f" over {len(prediction.found)} processes"


def _named(against: str) -> str:
    return "the incumbent" if against == "incumbent" else against


def _profile_rule(report: ConfirmReport, policy: Policy) -> tuple[Rule, ...]:
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


def _baseline_rule(
    fastest: str | None, against: dict[str, Interval], prediction: Prediction | None
) -> tuple[Rule, ...]:
    if fastest is None:
        return ()
    speedup = against[fastest].estimate
    over = _over(prediction if prediction is not None and prediction.against == fastest else None)
    text = f"The challenger runs {speedup:.3g} times as fast as the fastest baseline, {fastest}{over}."
    return (Rule(name="baseline", passed=speedup > 1.0, figure=speedup, threshold=1.0, text=text, required=False),)


def _summary(promote: bool, rules: tuple[Rule, ...], speedup: Interval | None) -> str:
    failed = [rule for rule in rules if rule.required and not rule.passed]
    if failed and (speedup is None or failed[0].name in ("correct", "sanitizers", "profile")):
        return f"Not promoted. {failed[0].text}"
    if speedup is None:
        return "Promoted: the first champion."
    compared = f"{_change(_gain(speedup))} time than the incumbent"
    if promote:
        return f"Promoted: {compared}, and every rule is met."
    return f"Not promoted: {compared}; not met: {', '.join(rule.name for rule in failed)}."


def _change(gain: float) -> str:
    return f"{gain:.1%} less" if gain >= 0 else f"{-gain:.1%} more"


def _span(interval: Interval) -> str:
    return f"{interval.low:.4g} to {interval.high:.4g} µs"
