"""What each switch is worth as a drawing: an interval for each change, and a line where nothing changes."""

from collections.abc import Sequence
from dataclasses import dataclass

from api.web.axis import Axis, Mark
from api.web.samples import BOTTOM, RIGHT, TOP, WHOLE
from evo.report.ablation import by_effect, change_text, sentence
from evo.view import AblationView

ROW, NAMES = 26.0, 330.0
PLACES = {"pays": 2, "hurts": 5, "nothing": 4, "unclear": 1}
"""Colours by finding; the table beside it says the same in words."""


@dataclass(frozen=True, kw_only=True)
class Stem:
    """One change: its interval as a line."""

    name: str
    place: int
    y: float
    low_x: float
    x: float
    high_x: float


@dataclass(frozen=True, kw_only=True)
class Forest:
    """Changes below each other on one scale of ratios; `even_x` is where a change makes no difference."""

    stems: tuple[Stem, ...]
    marks: tuple[Mark, ...]
    even_x: float
    summary: str
    height: float
    width: float = WHOLE
    top: float = TOP
    bottom: float = BOTTOM


def forest(found: Sequence[AblationView]) -> Forest | None:
    """A drawing of every change with a figure; None without any."""
    drawn = [(each, each.effect) for each in by_effect(found) if each.effect is not None]
    if not drawn:
        return None
    low = min(1.0, *(effect.ratio.low for _, effect in drawn))
    high = max(1.0, *(effect.ratio.high for _, effect in drawn))
    room = 0.05 * (high - low) or 0.01
    axis = Axis(low=low - room, high=high + room, start=NAMES, end=WHOLE - RIGHT - 20)
    return Forest(
        stems=tuple(
            Stem(
                name=change_text(each.change),
                place=PLACES[effect.finding],
                y=TOP + ROW * (row + 0.5),
                low_x=axis.at(effect.ratio.low),
                x=axis.at(effect.ratio.estimate),
                high_x=axis.at(effect.ratio.high),
            )
            for row, (each, effect) in enumerate(drawn)
        ),
        marks=axis.marks(7, lambda ratio: f"{ratio:.3g}×"),
        even_x=axis.at(1.0),
        summary=sentence([each for each, _ in drawn]),
        height=TOP + ROW * len(drawn) + BOTTOM,
    )
