"""Report section on targets and the decision: keep the champion, fall back, or continue."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evo.promotion.prediction import predict_time
from evo.promotion.statistics import Interval
from evo.report.document import Block, Listed, Text
from evo.report.material import Goal, Material, Terms
from evo.report.saving import Saving
from evo.text.wording import factor_text, significant, time_text

_REFERENCES = {"default": "default config", "random": "median random config"}


@dataclass(frozen=True, kw_only=True)
class GoalResult:
    """Status of a target time or of a target speed-up.

    Attributes:
        found: measured value, as text.
        missing: factor by which the kernel must become faster to reach the target; at most 1 if it is reached.
        time_us: time in µs that reaches the target. For a speed-up, it is computed from the baseline's time.
        words: status as text.
        everywhere: True if the whole prediction interval for another process reaches the target.
    """

    goal: Goal
    found: str
    missing: float
    time_us: float
    words: str = ""
    everywhere: bool = False


def goal_blocks(material: Material, terms: Terms) -> Iterator[Block]:
    """Yield a table of the targets, the decision, and the gains of the search."""
    if terms.goals:
        rows = tuple(_row(goal, material) for goal in terms.goals)
        yield Listed(("target", "wanted", "found", ""), rows)
    yield Text(f"Decision: {decision(material, terms)}")
    for gain in material.search.gains:
        yield Text(f"Gain of the search over the {_REFERENCES[gain.over]}: {gain.words}")


def judged(goal: Goal, material: Material) -> GoalResult | None:
    """Return the status of a target; None if nothing was measured, or if the required speed-up is unknown."""
    reached_us, saving = material.reached_us, material.saving
    if reached_us is None:
        return None
    if goal.time_us is not None:
        found = time_text(reached_us, estimated=material.search.estimated) + _mark(material)
        missing = reached_us / goal.time_us
        return _judged(GoalResult(goal=goal, found=found, missing=missing, time_us=goal.time_us), material)
    if goal.factor is None or saving is None:
        return None
    found, missing = factor_text(saving.factor) + _mark(material), goal.factor / saving.factor
    return _judged(
        GoalResult(goal=goal, found=found, missing=missing, time_us=saving.baseline_us / goal.factor), material
    )


def _mark(material: Material) -> str:
    """Return `` (quick)`` for times of a trial that was not confirmed, else an empty string."""
    best, estimated = material.search.best, material.search.estimated
    quick = material.champion is None and best is not None and best.source == "quick"
    return " (quick)" if quick and not estimated else ""


def decision(material: Material, terms: Terms) -> str:
    """Return a recommendation: keep the champion, use the baseline, or continue."""
    search, champion = material.search, material.champion
    if search.estimated:
        return "none: nothing was run. Search on a device of this kind."
    saving = material.saving
    if material.reached_us is None:
        return "nothing to keep: nothing was measured. Check the failures."
    if saving is not None and not saving.faster:
        return f"fall back to {saving.baseline}, which is faster: the kernel is {_relative(saving)}."
    if champion is None:
        if search.rolled_back is not None:
            current = "" if search.champion is None else f" Champion {search.champion.id} is current."
            return f"nothing to keep: {search.rolled_back}.{current}"
        before = "" if search.champion is None else f" Champion {search.champion.id} remains current."
        return f"nothing new to keep: no trial was promoted.{before}"
    worth = "no baseline was timed with the champion, so its gain is not known"
    if saving is not None:
        worth = f"it is {_relative(saving)}"
        if saving.saved_us > 0:
            worth = f"it saves {time_text(saving.saved_us)} a call compared with {saving.baseline}: {_relative(saving)}"
    return f"keep champion {champion.id}; {worth}.{_next(material, terms)}"


def _relative(saving: Saving) -> str:
    return f"{saving.as_fast}; {saving.times}"


def _next(material: Material, terms: Terms) -> str:
    """Return sentences on missed targets: what to try next, and which targets the device cannot reach."""
    known = [each for goal in terms.goals if (each := judged(goal, material)) is not None]
    if not known:
        return ""
    missed = sorted((each for each in known if each.missing > 1.0), key=lambda each: each.missing)
    if not missed:
        in_all = all(each.everywhere for each in known)
        return " Every target is reached." if in_all else " Every target is reached, but not all in every process."
    below = [each for each in missed if each.time_us < _floor_us(material)]
    words = "".join(
        f" Target {each.goal.name} needs an additional speed-up of {factor_text(each.missing)}: "
        f"{_next_attempt(material)}."
        for each in missed[:1]
        if each not in below
    )
    if rest := ", ".join(f"{each.goal.name} ({factor_text(each.missing)})" for each in missed[1:] if each not in below):
        words += f" Other missed targets: {rest}."
    for each in below:
        remedy = "try another dtype or device, or drop this target"
        words += f" Target {each.goal.name} is below what this device can do: {remedy}."
    return words


def _next_attempt(material: Material) -> str:
    """Return a clause that suggests how to find a faster kernel."""
    search = material.search
    if search.reason == "exhausted":
        return "every valid config was tried, so add values to the tunables, or try another algorithm"
    valid = search.space.valid_count
    tried = (
        f"{search.asked:,} configs were tried" if valid is None else f"{search.asked:,} of {valid:,} configs were tried"
    )
    return f"{tried}, so search longer; the next search begins with this champion"


def _row(goal: Goal, material: Material) -> tuple[str, ...]:
    result = judged(goal, material)
    wanted = f"{significant(goal.factor)}× the fastest baseline" if goal.factor is not None else time_text(goal.time_us)
    if result is None:
        nothing = "nothing was estimated" if material.search.estimated else "nothing was measured"
        why = nothing if material.reached_us is None else "no baseline ran"
        return goal.name, wanted, "–", f"not known: {why}"
    return goal.name, wanted, result.found, result.words


def _judged(result: GoalResult, material: Material) -> GoalResult:
    estimated, target = material.search.estimated, material.search.objective.target
    if result.missing > 1.0:
        by, where = (" by the estimate", f"on {target}") if estimated else ("", "on this device")
        words = f"missed{by}: an additional speed-up of {factor_text(result.missing)} is needed"
        if result.time_us < (floor_us := _floor_us(material)):
            words = f"impossible {where}: the problem takes at least {time_text(floor_us)}"
        return replace(result, words=words)
    if estimated:
        return replace(result, words="reached by the estimate, which was never run")
    words = _reached(result, material)
    return replace(result, words=words, everywhere=words == "reached")


def _reached(result: GoalResult, material: Material) -> str:
    """Return the status of a reached target as text.

    The text states whether another process will also reach the target. If there is no prediction, it states what was
    measured.
    """
    verdict = None if material.champion is None else material.champion.verdict
    if verdict is None or verdict.challenger is None:
        if material.search.best is not None and material.search.best.source == "confirmed":
            return "reached in a confirmation, but the trial was not promoted"
        return "reached by the quick samples of a trial that was not confirmed"
    predicted = _predicted(result.goal, material)
    if predicted is None:
        return "reached in the first process; no other process measured it"
    if result.goal.factor is not None:
        span = f"{factor_text(predicted.low)} to {factor_text(predicted.high)}"
        return (
            "reached"
            if predicted.low >= result.goal.factor
            else f"reached on average, but not in every process: {_one_more(span)}"
        )
    if predicted.high <= result.time_us:
        return "reached"
    span = f"{time_text(predicted.low)} to {time_text(predicted.high)}"
    return f"reached in the first process, but not in every process: {_one_more(span)}"


def _one_more(span: str) -> str:
    return f"predicted for one more process: {span}"


def _predicted(goal: Goal, material: Material) -> Interval | None:
    """Return the prediction of the goal's time or speed-up in another process; None if there is no prediction."""
    champion, saving = material.champion, material.saving
    verdict = None if champion is None else champion.verdict
    if champion is None or verdict is None:
        return None
    if goal.factor is None:
        return predict_time(champion.report, material.search.policy.confidence)
    prediction = verdict.prediction
    compared = prediction is not None and saving is not None and prediction.against == saving.baseline
    return prediction.speedup if prediction is not None and compared else None


def _floor_us(material: Material) -> float:
    return material.search.roofline.floor_us if material.search.roofline else 0.0
