"""Computes two metrics for each trial (one may be the time), and the Pareto front of the trials."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evo.errors import InvalidInput
from evo.messages.view.trial import TrialView
from evo.space.expression import Expression
from evo.trial import Value
from evo.trial.objective import Direction, direction_from, front
from evo.trial.outcome import Measured

TIME = "time_us"
MOST_METRICS = 2


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A quantity by which trials are compared.

    Attributes:
        text: the expression as the user wrote it.
        direction: ``minimise`` if smaller values are better, else ``maximise``.
    """

    text: str
    expression: Expression
    direction: Direction = "minimise"

    @classmethod
    def parse(cls, text: str, field: str) -> "Metric":
        """Return the metric for ``EXPRESSION``, ``minimise: EXPRESSION`` or ``maximise: EXPRESSION``.

        Args:
            field: name of the metric in error messages.

        Raises:
            InvalidInput: the text is not an expression, or its direction is unknown.
        """
        before, colon, after = text.partition(":")
        direction, written = (direction_from(before, field), after.strip()) if colon else ("minimise", text.strip())
        return cls(text=written, expression=Expression.parse(written, field), direction=direction)

    def cost(self, value: float) -> float:
        """Return a number that is lower for better values: the value, negated if the metric is maximised."""
        return -value if self.direction == "maximise" else value


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """A trial with the values of two metrics.

    Attributes:
        time_us: quick time or estimate in µs.
        metrics: values of the two metrics, by expression; ``time_us`` is the first if only one metric was given.
        front: True if the trial is on the Pareto front, i.e. no other trial is at least as good in both metrics and
            better in one.
    """

    trial: TrialView
    time_us: float
    metrics: Mapping[str, float]
    front: bool


def weighed(
    trials: Iterable[TrialView],
    metrics: Sequence[str],
    problem: Mapping[str, Value],
    field: str,
) -> list[Weighed]:
    """Return the trials with values for both metrics, in the given order.

    Metrics are computed from quick times, because confirmed times of different runs are not comparable. Trials whose
    kernel is, or may be, invalid according to a confirmation are left out.

    Args:
        metrics: one or two expressions over ``time_us``, the resources of a build (e.g. ``registers``), the measured
            ``power_w`` and ``energy_uj``, the tunables and the problem's fields. Each can have a direction before a
            colon. A single metric is paired with the time.
        field: name of the metrics in error messages.

    Raises:
        InvalidInput: a metric is not an expression, both are equal, there are more than two, or a metric contains a
            name for which no trial has a value. In the last case, the message lists the available names.
    """
    if len(metrics) > MOST_METRICS:
        raise InvalidInput(field, f"was given {len(metrics)} times; the maximum is {MOST_METRICS}")
    both = [Metric.parse(each, field) for each in ((TIME, *metrics) if len(metrics) == 1 else metrics)]
    if both[0].text == both[1].text:
        raise InvalidInput(field, f"`{both[0].text}` is compared with itself; use another expression")
    valid = [trial for trial in trials if trial.has_valid_time]
    figures = [(trial, _figures(trial, problem)) for trial in valid]
    known = sorted({name for _, each in figures for name in each})
    if figures:
        for metric in both:
            metric.expression.check_names(known, "names with a value in these trials")
    names = both[0].expression.names | both[1].expression.names
    having = [(trial, each) for trial, each in figures if names <= each.keys()]
    values = [tuple(float(metric.expression.number(each)) for metric in both) for _, each in having]
    best = front([(both[0].cost(first), both[1].cost(second)) for first, second in values])
    return [
        Weighed(
            trial=trial,
            time_us=_quick_us(trial),
            metrics={metric.text: value for metric, value in zip(both, found, strict=True)},
            front=index in best,
        )
        for index, ((trial, _), found) in enumerate(zip(having, values, strict=True))
    ]


def _figures(trial: TrialView, problem: Mapping[str, Value]) -> dict[str, Value]:
    resources: Mapping[str, float] = getattr(trial.outcome, "resources", {})
    time_us, power = _quick_us(trial), trial.outcome.timing.power if isinstance(trial.outcome, Measured) else None
    energy = {} if power is None else {"power_w": power.median_w, "energy_uj": power.median_w * time_us}
    return {**resources, **energy, **problem, **trial.config, TIME: time_us}


def _quick_us(trial: TrialView) -> float:
    return trial.quick_us or trial.time_us or 0.0
