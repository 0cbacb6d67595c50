"""Judges a confirmation by applying every rule. Each rule reports its measured value, its threshold and a sentence."""

from dataclasses import replace

import numpy as np

from evo.errors import InvalidInput
from evo.promotion.goal import Costs
from evo.promotion.policy import Policy
from evo.promotion.prediction import Prediction, fastest_baseline, predict, times_as_fast
from evo.promotion.rules import RULES, Confirmation
from evo.promotion.rules.base import MARKED, Known
from evo.promotion.rules.comparison import noise_between, relative_gain
from evo.promotion.rules.sequential import sequential_state, shrunk
from evo.promotion.statistics import Interval, order_interval, ratio_interval
from evo.promotion.verdict import Rule, Verdict, Words, change_text
from evo.text.wording import times_text
from evo.trial.explain import detail_text, headline
from evo.trial.outcome import Crashed, WrongAnswer
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

_ADVICE = (
    "Search again while fewer other programs run on the machine, or set more processes (`most_processes`) or rounds "
    "(`process_samples`, `confirm_samples`)."
)


def promising(report: ConfirmReport, policy: Policy, costs: Costs | None = None) -> bool:
    """Return True if the samples so far would lead to a promotion if sanitizers and the profiler found no fault.

    If the result is False after the last process, sanitizers and the profiler do not run.

    Args:
        costs: converts times to costs; None if the search has no metric.
    """
    return _preliminary(report, policy, costs).promote


def _preliminary(report: ConfirmReport, policy: Policy, costs: Costs | None) -> Verdict:
    """Return the verdict on an unfinished report, without requirements that are met only by a complete report.

    These are sanitizers, profiles, and the number of checked calls.
    """
    lenient = replace(policy, require_sanitizers=False, require_profile=False, min_calls_per_error=None)
    return judge(report, lenient, 1, np.random.default_rng(0), Known(costs=costs))


def undecided(report: ConfirmReport, policy: Policy, costs: Costs | None = None) -> bool:
    """Return True if a confirmation needs one more fresh process.

    The result is False if a rule is unmet that more processes cannot change, such as `correct`.

    - With an incumbent, the result is True while the sequential test is open.
    - If a rule about the rounds of the first process is unmet, the challenger will not be promoted. The result is then
      True only until `Policy.confirm_processes` processes have run. They show whether the gain is too small or hidden
      by noise.
    - Without an incumbent, the result is True until `Policy.confirm_processes` processes have run, because the
      prediction of the next process needs them.

    Args:
        costs: converts times to costs; None if the search has no metric.
    """
    verdict, more = _preliminary(report, policy, costs), len(report.repeats) + 1 < policy.confirm_processes
    if report.incumbent is None or verdict.speedup is None:
        return more and verdict.promote
    subjects = {MARKED[rule.name].about if rule.name in MARKED else "other" for rule in verdict.unmet}
    if policy.confirm_processes == 1 or not subjects <= {"rounds", "processes"}:
        return False
    found = (verdict.speedup.estimate,) if verdict.prediction is None else verdict.prediction.found
    return sequential_state(found, policy).decision == "open" and (more or "rounds" not in subjects)


def so_far(report: ConfirmReport, policy: Policy) -> str:
    """Return a clause with the speed-up so far, e.g. ``; so far 1.2 times as fast as torch``; empty if unknown."""
    against, challenger = report.repeated_against, report.challenger
    other = report.incumbent if against == "incumbent" else report.baselines.get(against or "")
    if challenger is None or other is None:
        return ""
    prediction = predict(report, policy)
    overall = None if prediction is None else prediction.overall
    figure = times_as_fast(challenger, other) if overall is None else overall.estimate
    named = "the incumbent" if against == "incumbent" else against
    return f"; so far {times_text(figure, 'fast')} as {named}"


def judge(
    report: ConfirmReport,
    policy: Policy,
    challengers: int,
    rng: np.random.Generator,
    known: Known = Known(),
) -> Verdict:
    """Return the verdict on one confirmation by applying all rules.

    Args:
        report: report with interleaved samples. Without an incumbent, the challenger can become the first champion.
        policy: thresholds of the rules.
        challengers: number of challengers that this search has confirmed, including this one. The p-value is corrected
            for this number.
        rng: random generator of the bootstrap. Generators in equal states give equal verdicts.
        known: facts that the report does not contain. Rules that need an unknown fact are skipped.
    """
    challenger, costs = report.challenger, known.costs
    if report.failure is not None or challenger is None:
        return _not_measured(report)
    words = Words() if costs is None else costs.goal.words()
    try:
        ranked = report if costs is None else costs.report(report)
    except InvalidInput as error:
        return _without_value(error)
    prediction = predict(ranked, policy)
    alone = {name: _speedup(challenger, timing, policy, rng) for name, timing in report.baselines.items()}
    against = {name: _overall(prediction, name, speedup) for name, speedup in alone.items()}
    fastest = fastest_baseline(report)
    median, incumbent, speedup = order_interval(challenger.samples_us, policy.confidence), None, None
    ours, theirs = ranked.challenger or challenger, None
    noise = noise_between(ours, ranked.challenger_again, policy, rng)
    if report.incumbent is not None and ranked.incumbent is not None:
        theirs = ranked.incumbent
        incumbent = order_interval(report.incumbent.samples_us, policy.confidence)
        alone["incumbent"] = _speedup(ours, theirs, policy, rng)
        speedup = _overall(prediction, "incumbent", alone["incumbent"])
    confirmation = Confirmation(
        report=report,
        policy=policy,
        ours=ours,
        theirs=theirs,
        words=words,
        challengers=challengers,
        **vars(known),
        prediction=prediction,
        speedup=speedup,
        speedup_of_first=alone.get("incumbent"),
        noise=noise,
        fastest=fastest,
        speedups=against,
    )
    rules, decisive = _judged(confirmation)
    promote = all(rule.passed for rule in rules if rule.required)
    expected = _expected(prediction, policy) if promote else None
    return Verdict(
        promote=promote,
        summary=_summary(rules, decisive, speedup, expected, words),
        rules=rules,
        challenger=median,
        incumbent=incumbent,
        speedup=speedup,
        baseline=fastest,
        baseline_speedup=None if fastest is None else against[fastest],
        behind_every_baseline=bool(against) and all(ratio.high < 1.0 for ratio in against.values()),
        prediction=prediction,
        first_process=None if prediction is None else alone[prediction.against],
        cannot_tell=_cannot_tell(rules),
        expected=expected,
        metric=None if costs is None else costs.metric(challenger.median_us),
    )


def _judged(confirmation: Confirmation) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return all rules that apply, and those that a kernel must meet whatever its speed (``about="kernel"``).

    An unmet rule about rounds or processes is marked as not conclusive if the challenger may reach the minimum gain.
    """
    rules: list[Rule] = []
    decisive: list[Rule] = []
    for marked in RULES:
        found = tuple(marked.judge(confirmation))
        if marked.about in ("rounds", "processes") and _may_gain_enough(confirmation):
            found = tuple(replace(rule, conclusive=rule.passed) for rule in found)
        rules += found
        decisive += found if marked.about == "kernel" else ()
    return tuple(rules), tuple(decisive)


def _may_gain_enough(confirmation: Confirmation) -> bool:
    """Return True if there is an incumbent, and the upper bound of the speed-up over it reaches the minimum gain.

    If several processes timed the incumbent, this is the upper bound of the mean of their speed-ups. Otherwise it is
    the upper bound of the speed-up in the single process.
    """
    speedup, prediction, policy = confirmation.speedup, confirmation.prediction, confirmation.policy
    if speedup is None:
        return False
    if prediction is None:
        return speedup.high >= 1.0 / (1.0 - policy.minimum_gain)
    return prediction.against == "incumbent" and sequential_state(prediction.found, policy).decision != "too little"


def _overall(prediction: Prediction | None, against: str, alone: Interval) -> Interval:
    """Return the mean speed-up over all processes if several processes timed the kernel `against`, else `alone`.

    Args:
        against: ``incumbent``, or the name of a baseline.
        alone: speed-up in the first process.
    """
    if prediction is None or prediction.against != against or prediction.overall is None:
        return alone
    return prediction.overall


def _expected(prediction: Prediction | None, policy: Policy) -> float | None:
    if prediction is None or prediction.against != "incumbent":
        return None
    return shrunk(sequential_state(prediction.found, policy), policy)


def _cannot_tell(rules: tuple[Rule, ...]) -> bool:
    """Return True if noise is the only obstacle to a promotion."""
    unmet = [rule for rule in rules if rule.required and not rule.passed]
    return bool(unmet) and not any(rule.conclusive for rule in unmet)


def _speedup(challenger: Timing, other: Timing, policy: Policy, rng: np.random.Generator) -> Interval:
    return ratio_interval(other.samples_us, challenger.samples_us, policy.confidence, rng)


def _not_measured(report: ConfirmReport) -> Verdict:
    which = report.failed or "challenger"
    reason, detail = "no samples were returned", ""
    if report.failure is not None:
        reason = report.failure.kind.replace("_", " ")
        detail = headline(detail_text(report.failure))
        detail = detail[:1].upper() + detail[1:]
    remedy = "; roll it back if it fails again" if which == "incumbent" else ""
    text = f"The {which} could not be measured in a fresh process ({reason}){remedy}. {detail}".rstrip()
    wrong = which == "challenger" and isinstance(report.failure, WrongAnswer | Crashed)
    rule = Rule(name="correct" if wrong else "measured", passed=False, figure=0.0, threshold=1.0, text=text)
    return Verdict(promote=False, summary=f"Not promoted. {text}", rules=(rule,))


def _without_value(error: InvalidInput) -> Verdict:
    """Return the verdict for a metric that has no value for the challenger or the incumbent."""
    text = f"The challenger and the incumbent cannot be compared: {error}."
    rule = Rule(name="metric", passed=False, figure=0.0, threshold=1.0, text=text)
    return Verdict(promote=False, summary=f"Not promoted. {text}", rules=(rule,))


def _summary(
    rules: tuple[Rule, ...],
    decisive: tuple[Rule, ...],
    speedup: Interval | None,
    expected: float | None,
    words: Words,
) -> str:
    failed = [rule for rule in rules if rule.required and not rule.passed]
    if failed and (speedup is None or failed[0] in decisive):
        return f"Not promoted. {failed[0].text}"
    if speedup is None:
        return "Promoted: the first champion."
    compared = f"{change_text(relative_gain(speedup))} {words.quantity} than the incumbent"
    if not failed:
        return f"Promoted: {compared}{_corrected(speedup, expected)}, and every rule is met."
    names = ", ".join(rule.name for rule in failed)
    if _cannot_tell(rules):
        noise = f"the noise leaves these rules undecided: {names}"
        return f"Not promoted. This machine cannot tell which is better: {compared}, but {noise}. {_ADVICE}"
    return f"Not promoted: {compared}; not met: {names}."


def _corrected(speedup: Interval, expected: float | None) -> str:
    """Return a clause with the gain that later measurements are expected to find.

    The result is empty if this gain is unknown, or equals the measured gain.
    """
    if expected is None:
        return ""
    found, again = (change_text(1.0 - 1.0 / value) for value in (speedup.estimate, expected))
    return "" if found == again else f" ({again} is expected in later measurements)"
