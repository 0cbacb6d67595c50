"""Formats the figure (measured value) and the threshold of each promotion rule as text, with explanations of both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evo.device.separation import LEVELS
from evo.promotion import Rule
from evo.text.wording import count_text, factor_text, significant, time_text

NOTHING = "–"
UNKNOWN = "unknown"
NOISY = "too noisy to tell"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Format of the figure of one promotion rule.

    Attributes:
        unit: function that formats a figure or a threshold with its unit.
        symbol: statistical symbol of the figure, or an empty string.
        side: relation of a passing figure to the threshold, e.g. ``≥``.
        figure: explanation of the figure.
        threshold: explanation of the threshold.
    """

    unit: Callable[[float], str]
    side: str
    figure: str
    threshold: str
    symbol: str = ""

    def found(self, value: float) -> str:
        return f"{self.symbol} = {self.unit(value)}" if self.symbol else self.unit(value)


def _share(value: float) -> str:
    return f"{value:.2%}"


def _bare(value: float) -> str:
    return f"{value:.2g}" if 0 < abs(value) < 0.001 else significant(value)


def _speed(value: float) -> str:
    return f"{factor_text(value)} as fast"


def _counted(what: str) -> Callable[[float], str]:
    return lambda value: count_text(int(value), what)


READINGS: Mapping[str, Reading] = {
    "correct": Reading(unit=_counted("failure"), side="", figure="on fresh inputs", threshold="may fail"),
    "answers": Reading(
        unit=_counted("wrong answer"), side="", figure="of checked timed calls", threshold="may be wrong"
    ),
    "rolled back": Reading(
        unit=_counted("rollback"), side="", figure="of this kernel by a person", threshold="allowed"
    ),
    "work": Reading(
        unit=factor_text,
        side="≤",
        figure="as long on overwritten outputs as on outputs that already contain the expected result",
        threshold="as long",
    ),
    "inputs": Reading(
        unit=factor_text, side="≤", figure="as long on new inputs as on the timed inputs", threshold="as long"
    ),
    "wrong calls": Reading(
        unit=_bare,
        side="≥",
        figure="calls with on average fewer than one wrong call",
        threshold="calls are required",
    ),
    "separation": Reading(
        unit=lambda value: LEVELS[int(value)],
        side="≥",
        figure="is the isolation of the candidate from its runner",
        threshold="is required by the policy",
    ),
    "evidence": Reading(
        unit=_counted("part"), side="", figure="of the required evidence missing", threshold="may be missing"
    ),
    "sanitizers": Reading(unit=_counted("fault"), side="", figure="found by sanitizers", threshold="may be found"),
    "profile": Reading(unit=_counted("gate"), side="", figure="of the policy missed", threshold="may be missed"),
    "incumbent": Reading(
        unit=factor_text,
        side="≤",
        figure="as long as in the incumbent's own confirmation",
        threshold="as long",
    ),
    "steady": Reading(
        unit=factor_text,
        side="≤",
        figure="as long in the last third of the rounds as in the first third",
        threshold="as long; a larger figure must be certain",
    ),
    "intervals": Reading(
        unit=time_text,
        side="<",
        figure="upper end of the challenger's interval",
        threshold="lower end of the incumbent's interval",
    ),
    "effect": Reading(
        unit=_bare,
        symbol="g",
        side="≥",
        figure="standard deviations between challenger and incumbent (Hedges' g)",
        threshold="standard deviations",
    ),
    "significance": Reading(
        unit=_bare,
        symbol="p",
        side="≤",
        figure="chance of such samples from equal kernels",
        threshold="chance at most",
    ),
    "gain": Reading(unit=_share, side="≥", figure="less time than the incumbent", threshold="less time"),
    "noise": Reading(
        unit=_share,
        side=">",
        figure="less time than the incumbent",
        threshold="possible difference between two series of one kernel",
    ),
    "rework": Reading(
        unit=_share,
        side="≥",
        figure="less time than the incumbent, after skipped work is subtracted",
        threshold="less time",
    ),
    "processes": Reading(
        unit=_speed,
        side=">",
        figure="as the other kernel (bound of the average over fresh processes)",
        threshold="that is, faster than the other kernel",
    ),
    "agreement": Reading(
        unit=_speed,
        side="",
        figure="as the other kernel, in the first process",
        threshold="is the nearer end of the interval predicted from the other processes",
    ),
    "quick figure": Reading(
        unit=factor_text,
        side="≤",
        figure="the quick time",
        threshold="and at least the inverse of that; other ratios are reported",
    ),
    "baseline": Reading(
        unit=_speed,
        side=">",
        figure="as the fastest baseline",
        threshold="that is, faster than the baseline",
    ),
}
"""Formats of the rules that have a figure, by the name of the rule."""

SPREAD = Reading(
    unit=_share,
    side="≤",
    figure="possible difference between two series of one kernel",
    threshold="the minimum gain of the policy",
)
"""Format of the noise rule for a first champion, which has no incumbent to compare with."""


def figure_text(rule: Rule) -> str:
    """Return the figure of a rule as text.

    The result is a dash if the rule has no figure or the figure was not measured, and `NOISY` if the figure is
    inconclusive.
    """
    reading = _reading(rule)
    if _noisy(rule):
        return NOISY
    return NOTHING if reading is None or _unchecked(rule) else reading.found(rule.figure)


def figure_words(rule: Rule) -> str:
    """Return the explanation of the figure. The result is empty if no figure is shown."""
    reading = _reading(rule)
    return "" if reading is None or _unchecked(rule) or _noisy(rule) else reading.figure


def threshold_text(rule: Rule) -> str:
    """Return the threshold as text, e.g. ``≥ 2.00%``.

    The result is a dash if the rule has no figure, ``none`` if nothing that the rule counts may occur, and `UNKNOWN` if
    the threshold depends on measurement noise that is unknown.
    """
    reading = _reading(rule)
    if reading is None:
        return NOTHING
    if not reading.side and rule.threshold == 0.0:
        return "none"
    if _noise_unknown(rule):
        return UNKNOWN
    side = _relation(rule) if rule.name == "agreement" else reading.side
    return " ".join(filter(None, (reading.symbol, side, reading.unit(rule.threshold))))


def _relation(rule: Rule) -> str:
    """Return the sign (``≤`` or ``≥``) before the threshold of a rule whose figure must be in a range.

    The shown threshold is the end of the range that is nearer to the figure. The rule is met if the figure is inside
    the range.
    """
    return "≤" if (rule.figure <= rule.threshold) == rule.passed else "≥"


def threshold_words(rule: Rule) -> str:
    """Return the explanation of the threshold."""
    reading = _reading(rule)
    return "" if reading is None else reading.threshold


def _reading(rule: Rule) -> Reading | None:
    if rule.name == "noise" and not rule.required:
        return SPREAD
    return READINGS.get(rule.name)


def _noisy(rule: Rule) -> bool:
    """Return True if a rule is inconclusive because of noise. Its figure is then meaningless and not shown."""
    return rule.name == "work" and not rule.conclusive


def _unchecked(rule: Rule) -> bool:
    """Return True if a rule failed because its check did not run. Its figure 0 is then not a result of the check."""
    return rule.name in ("sanitizers", "profile", "work", "answers") and not rule.passed and rule.figure == 0.0


def _noise_unknown(rule: Rule) -> bool:
    """Return True if the measurement noise is unknown, because no second series of the challenger was measured."""
    return rule.name == "noise" and rule.threshold == 1.0
