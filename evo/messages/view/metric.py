"""A second figure beside the time: a metric of the user, and the trials that no other beats in both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evo.messages.view.trial import TrialView
from evo.space.expression import Expression
from evo.trial import Value


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """A trial with its metric.

    Attributes:
        metric: of the trial; less is better.
        front: True if no other trial has both a time and a metric that are at most as large, and one of them less.
    """

    trial: TrialView
    time_us: float
    metric: float
    front: bool


def weighed(trials: Iterable[TrialView], metric: str, problem: Mapping[str, Value], field: str) -> list[Weighed]:
    """Return the trials that have a time and all figures of the metric, in order.

    Args:
        metric: an expression over ``time_us``, the resources of a build, e.g. ``registers``, the tunables and the
            problem's fields.
        field: the name by which errors call the metric.

    Raises:
        InvalidInput: the metric is no expression, or no trial has its figures; the message names those there are.
    """
    expression = Expression.parse(metric, field)
    figures = [(trial, _figures(trial, problem)) for trial in trials if trial.time_us is not None]
    known = sorted({name for _, each in figures for name in each})
    if figures:
        expression.check_names(known, "figures of these trials")
    having = [(trial, each) for trial, each in figures if expression.names <= each.keys()]
    points = [(float(each["time_us"]), float(expression.number(each))) for _, each in having]
    best = front(points)
    return [
        Weighed(trial=trial, time_us=point[0], metric=point[1], front=place in best)
        for place, ((trial, _), point) in enumerate(zip(having, points, strict=True))
    ]


def front(points: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Return the places of the points of the Pareto front, where less is better in both coordinates."""
    found, least, earlier = set[int](), float("inf"), None
    for place in sorted(range(len(points)), key=points.__getitem__):
        if points[place][1] < least or points[place] == earlier:
            found.add(place)
            least, earlier = points[place][1], points[place]
    return frozenset(found)


def _figures(trial: TrialView, problem: Mapping[str, Value]) -> dict[str, Value]:
    resources: Mapping[str, float] = getattr(trial.outcome, "resources", {})
    return {**resources, **problem, **trial.config, "time_us": trial.time_us or 0.0}
