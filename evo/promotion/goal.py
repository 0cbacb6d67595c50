"""The metric that a search optimises in place of the time, and the cost that ranks kernels.

Rules that compare the challenger with the incumbent compare costs. The cost is the metric itself if it is minimised,
and its reciprocal if it is maximised, so metrics must be positive. Without a metric, the cost is the time in µs.
"""

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from evo.errors import InvalidInput
from evo.promotion.verdict import Words
from evo.space.expression import Expression
from evo.trial import Config, Trial, Value
from evo.trial.objective import Objective
from evo.trial.outcome import RESOURCES, Estimated, InvalidMeasurement, Measured
from evo.trial.results import ConfirmReport
from evo.trial.timing import Timing

FIELD, SECOND = "objective.metric", "objective.second_metric"
"""Field names of the first and the second metric, for error messages."""

WORST = sys.float_info.max
"""Cost of a kernel whose metric has no value at its confirmed time."""

POWER = ("energy_uj", "power_w")
"""Names that need an energy meter: energy of a call in microjoules, and average power in watts."""

RATES = ("gflop_s", "gb_s", "flops", "bytes")
"""Names that the family's ``[work]`` provides: rates of a call in GFLOP/s and GB/s, and its operation and byte
counts."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """Properties of a kernel, other than its time, that a metric may use.

    Attributes:
        config: values of the tunables.
        resources: resources of the build, with the names in `RESOURCES`; empty if the compiler reports none.
        power_w: average power in watts of the device while the kernel runs; None if it was not measured.
    """

    config: Config
    resources: Mapping[str, float] = field(default_factory=dict)
    power_w: float | None = None


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A metric: an expression over time, energy, power, rates, build resources, tunables and problem fields.

    Attributes:
        objective: the objective whose metric this is.
        expression: the parsed expression.
        problem: values of the problem fields.
        work: number of operations (key ``flops``) and of moved bytes (key ``bytes``) of a call, if the family states
            them.
        called: field name of the metric in error messages: `FIELD` or `SECOND`.
    """

    objective: Objective
    expression: Expression
    problem: Mapping[str, Value]
    work: Mapping[str, float] = field(default_factory=dict)
    called: str = FIELD

    @classmethod
    def of(
        cls,
        objective: Objective,
        problem: Mapping[str, Value],
        *,
        flops: float | None,
        moved: float | None,
        called: str = FIELD,
    ) -> "Goal | None":
        """Return the metric of an objective; None if the objective is the time.

        Args:
            flops: number of operations of a call; None if the family does not state it.
            moved: number of bytes that a call moves; None if the family does not state it.
            called: field name of the metric in error messages.

        Raises:
            InvalidInput: the metric is not an expression, or a direction is set without a metric.
        """
        if objective.metric is None:
            if objective.direction != "minimise":
                raise InvalidInput("objective.direction", "requires a metric; set objective.metric")
            return None
        work = {name: value for name, value in (("flops", flops), ("bytes", moved)) if value is not None}
        expression = Expression.parse(objective.metric, called)
        return cls(objective=objective, expression=expression, problem=problem, work=work, called=called)

    @classmethod
    def second(
        cls, objective: Objective, problem: Mapping[str, Value], *, flops: float | None, moved: float | None
    ) -> "Goal | None":
        """Return the metric of the second objective; None if there is only one objective.

        The arguments are those of `of`.

        Raises:
            InvalidInput: the metric is invalid (see `of`), or both objectives are equal.
        """
        if (second := objective.second) is None:
            if objective.second_direction != "minimise":
                reason = f"requires a second metric; set {SECOND}"
                raise InvalidInput("objective.second_direction", reason)
            return None
        if second.metric == (objective.metric or "time_us"):
            raise InvalidInput(SECOND, f"`{second.metric}` is the first objective, too; write another expression")
        return cls.of(second, problem, flops=flops, moved=moved, called=SECOND)

    @property
    def metered(self) -> bool:
        """True if the metric needs an energy meter."""
        return not self.expression.names.isdisjoint(POWER)

    def check(self, tunables: Collection[str], *, compiled: bool, unmetered: str | None = None) -> None:
        """Check that the metric's names are known and that its value can differ between configs.

        Args:
            tunables: names of the space's tunables.
            compiled: True if the device's compiler reports the resources of a build.
            unmetered: reason why the device has no energy meter; None if it has one.

        Raises:
            InvalidInput: a name is unknown (the message lists the known names), the value is the same for all configs,
                or the metric needs energy measurements and the device has no energy meter.
        """
        rates = RATES if self.work else ()
        if self.metered and unmetered is not None:
            raise InvalidInput(self.called, f"`{self.expression.text}` requires energy measurements, and {unmetered}")
        power = () if unmetered else POWER
        varying = {"time_us", *power, *rates[:2], *(RESOURCES if compiled else ()), *tunables}
        self.expression.check_names(sorted({*varying, *rates, *self.problem}), "usable names")
        if not self.expression.names & varying:
            remedy = f"use one of: {', '.join(sorted(varying))}"
            raise InvalidInput(self.called, f"`{self.expression.text}` is the same for every config; {remedy}")

    def metric(self, kernel: Kernel, time_us: float) -> float:
        """Return the metric's value for a kernel whose time is `time_us`.

        Raises:
            InvalidInput: a quantity in the metric is unknown for the kernel, or the value is not positive and finite.
        """
        figures: dict[str, Value] = {**kernel.resources, **self.work}
        if "flops" in self.work:
            figures["gflop_s"] = self.work["flops"] / time_us / 1e3
        if "bytes" in self.work:
            figures["gb_s"] = self.work["bytes"] / time_us / 1e3
        if kernel.power_w is not None:
            figures |= {"power_w": kernel.power_w, "energy_uj": kernel.power_w * time_us}
        figures |= {**self.problem, **kernel.config, "time_us": time_us}
        if not self.expression.names <= figures.keys():
            self.expression.check_names(sorted(figures), "names of this trial")
        value = float(self.expression.number(figures))
        if not (math.isfinite(value) and value > 0.0):
            reason = f"`{self.expression.text}` is {value:g} for this trial, but values are compared by their ratio"
            raise InvalidInput(self.called, f"{reason}; write a metric that is always positive, e.g. `1 + spill_bytes`")
        return value

    def cost(self, kernel: Kernel, time_us: float) -> float:
        """Return the cost of a kernel whose time is `time_us`. The kernel with the lowest cost is the best.

        Raises:
            InvalidInput: as in `metric`.
        """
        value = self.metric(kernel, time_us)
        return 1.0 / value if self.objective.direction == "maximise" else value

    def confirmed(self, trial: Trial, time_us: float) -> float:
        """Return a trial's cost at its confirmed time; `WORST` if the metric has no value at that time."""
        if not isinstance(trial.outcome, Measured | Estimated):
            return WORST
        try:
            return self.cost(_kernel(trial.config, trial.outcome), time_us)
        except InvalidInput:
            return WORST

    def judged(self, trial: Trial) -> Trial:
        """Return an ended trial with its cost added. A trial without a time is returned unchanged.

        If the metric has no value, the outcome becomes InvalidMeasurement.
        """
        outcome = trial.outcome
        if not isinstance(outcome, Measured | Estimated) or trial.time_us is None:
            return trial
        try:
            cost = self.cost(_kernel(trial.config, outcome), trial.time_us)
        except InvalidInput as error:
            return replace(trial, outcome=InvalidMeasurement(reason=str(error)))
        if self.called == SECOND:
            return replace(trial, outcome=replace(outcome, second_cost=cost))
        return replace(trial, outcome=replace(outcome, cost=cost))

    def words(self) -> Words:
        """Return the words for costs of this metric in messages of rules."""
        return Words(quantity=f"cost ({self.objective.goal})", unit="", takes="has", ratio="times as good", ran="was")


def needs_energy(objective: Objective) -> bool:
    """Return True if the first or the second metric needs an energy meter."""
    goals = (found(objective, {}, flops=None, moved=None) for found in (Goal.of, Goal.second))
    return any(goal is not None and goal.metered for goal in goals)


def _kernel(config: Config, outcome: Measured | Estimated) -> Kernel:
    power = outcome.timing.power if isinstance(outcome, Measured) else None
    return Kernel(config=config, resources=outcome.resources, power_w=None if power is None else power.median_w)


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Converts the times of a confirmation's challenger and incumbent to costs.

    Attributes:
        challenger, incumbent: properties of the two kernels; `incumbent` is None if there is no incumbent.
    """

    goal: Goal
    challenger: Kernel
    incumbent: Kernel | None = None

    @classmethod
    def of(cls, goal: Goal, report: ConfirmReport, challenger: Config, incumbent: Config | None) -> "Costs":
        """Return the converter for a confirmation.

        Args:
            goal: the metric.
            report: report of the confirmation, with the kernels' build resources and power.
            challenger, incumbent: configs of the kernels; `incumbent` is None if there is no incumbent.
        """
        built = report.resources
        return cls(
            goal=goal,
            challenger=Kernel(
                config=challenger, resources=built.get("challenger", {}), power_w=_power_w(report.challenger)
            ),
            incumbent=None
            if incumbent is None
            else Kernel(config=incumbent, resources=built.get("incumbent", {}), power_w=_power_w(report.incumbent)),
        )

    def report(self, report: ConfirmReport) -> ConfirmReport:
        """Return the report with costs in place of the times of the challenger and the incumbent.

        A report without an incumbent is returned unchanged, because nothing is compared by cost.

        Raises:
            InvalidInput: the metric has no value for the challenger or the incumbent.
        """
        if report.incumbent is None or report.challenger is None or self.incumbent is None:
            return report
        ours, theirs = self.challenger, self.incumbent
        repeats = report.repeats
        if report.repeated_against == "incumbent":
            repeats = tuple(
                replace(
                    each,
                    challenger=self._series(ours, each.challenger),
                    other=None if each.other is None else self._series(theirs, each.other),
                )
                for each in repeats
            )
        return replace(
            report,
            challenger=self._series(ours, report.challenger),
            challenger_again=report.challenger_again and self._series(ours, report.challenger_again),
            incumbent=self._series(theirs, report.incumbent),
            repeats=repeats,
        )

    def metric(self, time_us: float) -> float | None:
        """Return the challenger's metric at `time_us`; None if the metric has no value."""
        try:
            return self.goal.metric(self.challenger, time_us)
        except InvalidInput:
            return None

    def grown(self, time_us: float, factor: float) -> float:
        """Return the factor by which the challenger's cost grows if its time grows by `factor`.

        The result is infinite if the metric has no value at the longer time.
        """
        try:
            longer = self.goal.cost(self.challenger, factor * time_us)
        except InvalidInput:
            return math.inf
        return longer / self.goal.cost(self.challenger, time_us)

    def _series(self, kernel: Kernel, timing: Timing) -> Timing:
        """Return the timing with costs in place of times.

        If the metric needs energy, each cost is computed from the mean time and power in one interval of `Power`.
        """
        if self.goal.metered and timing.power is not None:
            pairs = zip(timing.power.samples_us, timing.power.samples_w, strict=True)
            costs = tuple(self.goal.cost(replace(kernel, power_w=power), time) for time, power in pairs)
            return replace(timing, samples_us=costs)
        return replace(timing, samples_us=tuple(self.goal.cost(kernel, each) for each in timing.samples_us))


def _power_w(timing: Timing | None) -> float | None:
    return None if timing is None or timing.power is None else timing.power.median_w
