"""Rules about the speed-ups in all processes of a confirmation, and about the baselines timed in it."""

from evo.promotion.policy import Policy
from evo.promotion.prediction import Prediction, predict_us
from evo.promotion.rules.base import Confirmation, rule
from evo.promotion.rules.sequential import SequentialState, looks, sequential_state
from evo.promotion.verdict import TIME, Rule, Words
from evo.text.wording import time_text, times_text
from evo.trial.results import ConfirmReport


@rule("processes", about="processes", rank=140)
def prediction_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Require that the sequential test finds the challenger faster, on average over fresh processes.

    If there is no incumbent, the speed-up over a baseline is only reported.
    """
    report, policy, words, prediction = (
        confirmation.report,
        confirmation.policy,
        confirmation.words,
        confirmation.prediction,
    )
    if report.incumbent is not None and report.repeats and (prediction is None or prediction.against != "incumbent"):
        text = "No process after the first compared the challenger with the incumbent."
        return (Rule(name="processes", passed=False, figure=0.0, threshold=1.0, text=text),)
    if prediction is None:
        return ()
    speedup, found = prediction.speedup, prediction.found
    words = words if prediction.against == "incumbent" else Words()
    more = f"{1.0 / speedup.low - 1.0:.1%} more {words.quantity}" if speedup.low < 1.0 else ""
    slower = f"; a single process may take up to {more}" if more else ""
    text = (
        f"In {len(found)} fresh processes the challenger {words.ran} {min(found):.3g} to {max(found):.3g} "
        f"{words.ratio} as {_name_of(prediction.against)}, {speedup.estimate:.3g} times on average; expected in one "
        f"more process: {speedup.low:.3g} to {speedup.high:.3g} ({prediction.confidence:.0%} prediction "
        f"interval){slower}"
    )
    if prediction.against == "incumbent":
        return (_decided(sequential_state(found, policy), policy, text, words),)
    passed, figure = speedup.estimate > 1.0, speedup.estimate
    return (Rule(name="processes", passed=passed, figure=figure, threshold=1.0, text=f"{text}.", required=False),)


def _decided(at: SequentialState, policy: Policy, found: str, words: Words) -> Rule:
    """Return the rule with the result of the sequential test.

    Args:
        at: state of the test.
        found: first part of the rule's text, with the measured speed-ups.
    """
    figure, threshold = at.low or at.mean, 1.0
    if at.decision == "too little":
        figure, threshold = at.high, at.needed
        reason = f"on average it is at most {figure:.4g} {words.ratio}, but at least {threshold:.4g} times is needed"
    elif at.low is None:
        reason = f"a promotion is decided after {_numbers(looks(policy))} processes, not after {at.processes}"
    else:
        risk = f"a kernel that is not better is promoted with a probability of at most {policy.false_promotion:.2%}"
        reason = f"on average it is at least {at.low:.4g} {words.ratio}; {risk}"
        if at.decision != "faster":
            reason = (
                f"on average it may be {at.low:.4g} to {at.high:.4g} {words.ratio}, which leaves open whether it is "
                f"better: processes differ by {at.spread:.1%} (standard deviation)"
            )
    return Rule(
        name="processes",
        passed=at.decision == "faster",
        figure=figure,
        threshold=threshold,
        text=f"{found}; {reason}.",
    )


@rule("agreement", rank=150)
def agreement_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Warn if the speed-up in the first process is outside the range that the later processes predict.

    By chance, one in twenty challengers gets this warning (decision 51).
    """
    prediction = confirmation.prediction
    if prediction is None or prediction.others is None:
        return ()
    words = confirmation.words if prediction.against == "incumbent" else Words()
    first, others, count = prediction.found[0], prediction.others, len(prediction.found) - 1
    expected = f"the {others.low:.3g} to {others.high:.3g} that the other {count} processes predict"
    text = f"The first process found {first:.3g} {words.ratio}, within {expected}."
    if not prediction.agrees:
        text = (
            f"The first process and the other processes disagree: the first process found {first:.3g} {words.ratio}, "
            f"outside {expected}. Rules about the samples of the first process are therefore less reliable than the "
            "figures over all processes."
        )
    bound = others.low if first < others.estimate else others.high
    return (Rule(name="agreement", passed=prediction.agrees, figure=first, threshold=bound, text=text, required=False),)


@rule("baseline", rank=170)
def baseline_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    fastest, prediction = confirmation.fastest, confirmation.prediction
    if fastest is None:
        return ()
    speedup = confirmation.speedups[fastest].estimate
    over = over_processes(prediction if prediction is not None and prediction.against == fastest else None)
    named = f"{fastest},{over}" if over else fastest
    text = f"The challenger runs {times_text(speedup, 'fast')} as the fastest baseline, {named}."
    return (Rule(name="baseline", passed=speedup > 1.0, figure=speedup, threshold=1.0, text=text, required=False),)


@rule("baselines", rank=180)
def alone_rule(confirmation: Confirmation) -> tuple[Rule, ...]:
    """Report why no baseline was timed. Nothing is reported for recordings, which have no baselines."""
    report = confirmation.report
    if report.baselines or not report.cases:
        return ()
    missing = {name: why for name, why in report.environment.items() if name.startswith("baseline ")}
    reasons = "; ".join(f"{name.removeprefix('baseline ')}: {why}" for name, why in missing.items())
    text = f"No baseline was timed: {reasons or 'the family has none for this device'}."
    return (
        Rule(name="baselines", passed=False, figure=0.0, threshold=0.0, text=text, required=False),
        *_time_rule(report, confirmation.policy),
    )


def _time_rule(report: ConfirmReport, policy: Policy) -> tuple[Rule, ...]:
    predicted = predict_us(report, policy)
    if predicted is None:
        return ()
    text = (
        f"In {len(report.repeats) + 1} fresh processes the challenger took {time_text(predicted.estimate)} on average; "
        f"expected in one more process: {time_text(predicted.low)} to {time_text(predicted.high)} "
        f"({policy.confidence:.0%} prediction interval)."
    )
    return (Rule(name=TIME, passed=True, figure=predicted.estimate, threshold=0.0, text=text, required=False),)


def over_processes(prediction: Prediction | None) -> str:
    return "" if prediction is None else f" over {len(prediction.found)} processes"


def _name_of(against: str) -> str:
    return "the incumbent" if against == "incumbent" else against


def _numbers(counts: tuple[int, ...]) -> str:
    *others, last = map(str, counts)
    return f"{', '.join(others)} or {last}" if others else last
