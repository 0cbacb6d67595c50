"""Sparkline of a search: its best time so far, small enough for a table row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from api.web.drawings.scale import Scale, scale_of
from evo.trial.objective import Objective

SPARK_POINTS = 48
WIDTH, HEIGHT, MARGIN = 120.0, 28.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Spark:
    """A path in its own coordinates; `summary` describes it in words."""

    path: str
    summary: str
    width: float = WIDTH
    height: float = HEIGHT


def spark_of(lows: Sequence[tuple[int, float]], scale: Scale | None = None) -> Spark | None:
    """Return the line through the running minimum of (number, cost); None without points.

    Args:
        scale: of the costs; None: measured times.
    """
    if not lows:
        return None
    best: list[tuple[int, float]] = []
    for number, time_us in lows:
        best.append((number, min(time_us, best[-1][1] if best else time_us)))
    first, last = best[0][1], best[-1][1]
    span = math.log(first / last) if last < first else 1.0
    end = max(best[-1][0], 1)

    def place(number: int, time_us: float) -> tuple[float, float]:
        down = math.log(first / time_us) / span if last < first else 0.5
        return MARGIN + (WIDTH - 2 * MARGIN) * number / end, MARGIN + (HEIGHT - 2 * MARGIN) * down

    x, y = place(*best[0])
    steps = [f"M{x:.1f},{y:.1f}"]
    for number, time_us in best[1:]:
        x, new_y = place(number, time_us)
        steps += [f"H{x:.1f}"] + ([f"V{new_y:.1f}"] if new_y != y else [])
        y = new_y
    steps.append(f"H{WIDTH - MARGIN:.1f}")
    scale = scale or scale_of(Objective(), estimated=False)
    span_words = " to ".join(scale.text(cost) for cost in (first, last))
    return Spark(path=" ".join(steps), summary=f"Best {scale.what} so far: from {span_words}")
