"""The figures of a promotion's rules as people read them: in their unit, the threshold with the side it lies on."""

from collections.abc import Mapping

from evo.promotion import Rule
from evo.wording import count_text, significant, time_text

MICROSECONDS, FRACTIONS = {"intervals"}, {"gain", "noise"}
COUNTED: Mapping[str, str] = {"correct": "failure", "sanitizers": "fault"}
"""What the figure of a rule is; of the others it is a bare number."""

SIDES: Mapping[str, str] = {
    "intervals": "<",
    "effect": "≥",
    "significance": "≤",
    "gain": "≥",
    "noise": ">",
    "baseline": ">",
}
"""How a figure that passes stands to the threshold."""

NOTHING = "–"


def figure_text(rule: Rule) -> str:
    """What was found; a dash where a rule judges no figure, or nothing looked for it."""
    unsought = rule.name in COUNTED and not rule.passed and rule.figure == 0.0
    return NOTHING if unsought or _wordless(rule) else _in_unit(rule, rule.figure)


def threshold_text(rule: Rule) -> str:
    """What it is held against, e.g. ``≥ 2.00%``."""
    if _wordless(rule):
        return NOTHING
    if rule.name in COUNTED and rule.threshold == 0.0:
        return "none"
    side = "≤" if rule.name == "noise" and not rule.required else SIDES.get(rule.name, "")
    return f"{side} {_in_unit(rule, rule.threshold)}".strip()


def _wordless(rule: Rule) -> bool:
    return rule.name not in COUNTED and rule.figure == rule.threshold == 0.0


def _in_unit(rule: Rule, value: float) -> str:
    if rule.name in MICROSECONDS:
        return time_text(value)
    if rule.name in FRACTIONS:
        return f"{value:.2%}"
    if rule.name in COUNTED:
        return count_text(int(value), COUNTED[rule.name])
    return f"{value:.2g}" if 0 < abs(value) < 0.001 else significant(value)
