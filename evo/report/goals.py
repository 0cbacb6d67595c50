"""Targets, and the decision that follows from them: keep, fall back, or try further."""

from collections.abc import Iterator

from evo.report.document import Block, Listed, Text
from evo.report.material import Material
from evo.report.terms import Goal, Terms
from evo.wording import factor_text, significant, time_text


def goal_blocks(material: Material, terms: Terms) -> Iterator[Block]:
    """Each target with what became of it, and what to do now."""
    if terms.goals:
        rows = tuple((goal.name, _wanted(goal), *_state(goal, material)) for goal in terms.goals)
        yield Listed(("target", "wanted", "time", ""), rows)
    yield Text(f"Decision: {decision(material, terms)}")


def time_of(goal: Goal, material: Material) -> float | None:
    """The time that reaches it; None where it is told against a baseline and none ran."""
    if goal.factor is None:
        return goal.time_us
    return None if material.saving is None else material.saving.baseline_us / goal.factor


def decision(material: Material, terms: Terms) -> str:
    """One sentence or two."""
    search, champion = material.search, material.champion
    if search.estimated:
        return "none: nothing was run. Search on such a device, beginning with the best of these estimates."
    saving = material.saving
    if material.reached_us is None:
        return "nothing to keep: nothing was measured. Look at what failed."
    if saving is not None and saving.saved_us <= 0:
        return f"fall back to {saving.baseline}, which is faster ({time_text(saving.baseline_us)})."
    if champion is None:
        if search.rolled_back is not None:
            current = "" if search.champion is None else f" Champion {search.champion.id} is current."
            return f"nothing to keep: {search.rolled_back}.{current}"
        before = "" if search.champion is None else f" Champion {search.champion.id} of before stays."
        return f"nothing new to keep: no trial was promoted.{before}"
    beside = "no baseline ran beside it, so nothing says what it is worth"
    if saving is not None:
        beside = f"it saves {time_text(saving.saved_us)} a call beside {saving.baseline}"
    return f"keep champion {champion.id}; {beside}.{_next(material, terms)}"


def _next(material: Material, terms: Terms) -> str:
    """What is open yet, and whether the device leaves room for it."""
    reached_us = material.reached_us or 0.0
    floor_us = material.search.roofline.floor_us if material.search.roofline else 0.0
    wanted = [(goal, time_of(goal, material)) for goal in terms.goals]
    open_goals = [(goal, time_us) for goal, time_us in wanted if time_us is not None and time_us < reached_us]
    if not open_goals:
        return " Every target is reached." if terms.goals else ""
    goal, time_us = max(open_goals, key=lambda each: each[1])
    if time_us < floor_us:
        return f" Target {goal.name} is below what this device can do: try another dtype or device, or drop it."
    return f" Try next for {goal.name}: {factor_text(reached_us / time_us)} faster than this is wanted."


def _wanted(goal: Goal) -> str:
    return time_text(goal.time_us) if goal.factor is None else f"{significant(goal.factor)}× the fastest baseline"


def _state(goal: Goal, material: Material) -> tuple[str, str]:
    time_us, reached_us = time_of(goal, material), material.reached_us
    if time_us is None or reached_us is None:
        return time_text(time_us), "not known: " + ("nothing was measured" if reached_us is None else "no baseline ran")
    floor_us = material.search.roofline.floor_us if material.search.roofline else 0.0
    return time_text(time_us), _met(time_us, reached_us, floor_us, material)


def _met(time_us: float, reached_us: float, floor_us: float, material: Material) -> str:
    if reached_us > time_us:
        if time_us < floor_us:
            return f"impossible here: it takes {time_text(floor_us)} at least"
        return f"missed: {factor_text(reached_us / time_us)} of it"
    if material.search.estimated:
        return "reached by the estimate, which was never run"
    verdict = None if material.champion is None else material.champion.verdict
    if verdict is None or verdict.challenger is None:
        return "reached by the quick samples of a trial that was not confirmed"
    return "reached" if verdict.challenger.high <= time_us else "reached by the median, not by all of its interval"
