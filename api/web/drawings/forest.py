"""Forest plot of an ablation, with an interval for each change, and a line at ratio 1 (no effect)."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from api.web.drawings.axis import Axis
from api.web.drawings.samples import BOTTOM, RIGHT, TOP, WHOLE, IntervalLine, Rows
from evo.messages.view import AblationView
from evo.report.sections.ablation import by_effect, change_text, sentence

ROW, NAMES = 26.0, 330.0
NEAR, FAR = 0.05, 6.0
"""The scale extends on each side of 1 by at most `FAR` times the median change, or by `NEAR` if that is more. Without
this limit, one slow change would compress the intervals of all others into dots."""

PLACES = {"pays": 2, "hurts": 5, "nothing": 4, "unclear": 1}
"""Index of the colour, by effect of the change. The table next to the plot also states the effect in words."""


@dataclass(frozen=True, kw_only=True)
class Forest(Rows):
    """Intervals of all changes of an ablation, one per row, on a common scale of ratios.

    `even_x` is the horizontal position of ratio 1 (no effect). If a ratio is outside the scale, the text of its
    interval line states the ratio.
    """

    stems: tuple[IntervalLine, ...]
    even_x: float


def forest(found: Sequence[AblationView]) -> Forest | None:
    """Return the drawing of all changes that have a ratio, or None if no change has one."""
    drawn = [(each, each.effect) for each in by_effect(found) if each.effect is not None]
    if not drawn:
        return None
    reach = max(NEAR, FAR * median(effect.ratio.reach(1.0) for _, effect in drawn))
    low = max(1.0 - reach, min(1.0, *(effect.ratio.low for _, effect in drawn)))
    high = min(1.0 + reach, max(1.0, *(effect.ratio.high for _, effect in drawn)))
    room = 0.05 * (high - low) or 0.01
    axis = Axis(low=low - room, high=high + room, start=NAMES, end=WHOLE - RIGHT - 20)

    def at(ratio: float) -> float:
        return axis.at(min(max(ratio, low), high))

    return Forest(
        stems=tuple(
            IntervalLine(
                name=change_text(each.change),
                place=PLACES[effect.finding],
                y=TOP + ROW * (row + 0.5),
                low_x=at(effect.ratio.low),
                x=at(effect.ratio.estimate),
                high_x=at(effect.ratio.high),
                text="" if low <= effect.ratio.estimate <= high else f"{effect.ratio.estimate:.3g}×, outside the scale",
            )
            for row, (each, effect) in enumerate(drawn)
        ),
        marks=axis.marks(7, lambda ratio: f"{ratio:.3g}×"),
        even_x=axis.at(1.0),
        summary=sentence([each for each, _ in drawn]),
        height=TOP + ROW * len(drawn) + BOTTOM,
    )
