"""Objective: what a search minimises or maximises, and the conditions under which kernels are timed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from evo.errors import InvalidInput
from evo.text.wording import count_text, significant

PROTOCOL_VERSION = 3
"""Version of the timing protocol. It increases when a change in sampling may change times. Times of different versions
are not comparable.
"""


Direction: TypeAlias = Literal["minimise", "maximise"]


def direction_from(text: str, field: str) -> Direction:
    """Return the direction that a user wrote; the American spelling is accepted too.

    Raises:
        InvalidInput: the text is not a direction. The error is reported for `field`.
    """
    match text.strip():
        case "minimise" | "minimize":
            return "minimise"
        case "maximise" | "maximize":
            return "maximise"
    meant = "maximise" if text.strip().lower().startswith("max") else "minimise"
    accepted = "minimise: EXPRESSION, maximise: EXPRESSION"
    raise InvalidInput(field, f"{text.strip()!r:.60} is not a direction; accepted: {accepted}; write {meant}")


_METRICS: Mapping[str, str] = {
    r"|time(?:_us)?|latency|speed|runtime|run_?time|duration|cycles|[unm]s": "time",
    r"t?g?flops?|t?g?flops?_?(?:ps|s)|throughput|perf|performance": "maximise: gflop_s",
    r"gb_?p?s|bw|bandwidth": "maximise: gb_s",
    r"energy(?:_uj)?|joules?|[um]?j|power|watts?": "minimise: energy_uj",
    r"edp|time_us *\* *energy_uj": "minimise: time_us * energy_uj",
    r"regs?|registers?": "minimise: registers",
}
"""Objectives, by the names that other tools use (patterns in lower case)."""


def objective_meant(text: str) -> str | None:
    """Return the objective that a user probably means, e.g. ``maximise: gflop_s`` for ``GFLOPs``; None if unclear."""
    metric = re.sub(r"-|\b(?:min|max)(?:imi[sz]e)?\b|[:()]", " ", text.lower()).strip()
    return next((meant for pattern, meant in _METRICS.items() if re.fullmatch(pattern, metric)), None)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The optimised quantity, and the conditions under which kernels are timed and compared.

    Attributes:
        cache: ``hot`` times repeated calls on the same buffers; ``cold`` rotates through buffer sets that together
            exceed the last-level cache.
        threads: number of CPU threads that a kernel may use.
        launch: ``plain``, or ``pdl`` (programmatic dependent launch, sm_90).
        accumulate: dtype of the accumulator, which determines the accuracy of the result.
        target: a known GPU (`evo.device.estimate.target`) whose limits replace those of the device when configs and
            builds are checked. If no kernel is run, times are estimated for this GPU. None if the device itself is
            used.
        deterministic: True if a kernel whose output differs between runs on the same input is rejected.
        protocol: version of the timing protocol.
        metric: expression that is minimised or maximised (`evo.promotion.goal`). None if the time is minimised.
        direction: whether the metric is minimised or maximised.
        second_metric: expression of a second objective, None if there is only one objective. A search with two
            objectives looks for their Pareto front (`evo.strategy.parts.joint`); promotions depend only on the first
            objective.
        second_direction: whether the second metric is minimised or maximised.
    """

    cache: Literal["hot", "cold"] = "hot"
    threads: int = 1
    launch: Literal["plain", "pdl"] = "plain"
    accumulate: str = "float32"
    deterministic: bool = True
    protocol: int = PROTOCOL_VERSION
    target: str | None = None
    metric: str | None = None
    direction: Direction = "minimise"
    second_metric: str | None = None
    second_direction: Direction = "minimise"

    @property
    def first(self) -> "Objective":
        """This objective without its second metric; promotions depend only on this part."""
        return replace(self, second_metric=None, second_direction="minimise")

    @property
    def second(self) -> "Objective | None":
        """The second objective, under the same conditions as the first. None if there is only one objective."""
        if self.second_metric is None:
            return None
        return replace(self.first, metric=self.second_metric, direction=self.second_direction)

    @property
    def key(self) -> str:
        """Stable, readable text that identifies the objective, e.g. ``hot,threads=1,plain,float32,deterministic,v3``.

        The second objective is not part of the key. Searches with the same first objective compete for one champion.
        """
        order = "deterministic" if self.deterministic else "any-order"
        aim = "" if self.target is None else f",for={self.target}"
        goal = "" if self.metric is None else f",{self.direction}={self.metric}"
        terms = f"{self.cache},threads={self.threads},{self.launch},{self.accumulate},{order},v{self.protocol}"
        return f"{terms}{aim}{goal}"

    @property
    def goal(self) -> str:
        """The objective in the command line's syntax, e.g. ``time`` or ``maximise: gflop_s``."""
        return "time" if self.metric is None else f"{self.direction}: {self.metric}"

    @property
    def goals(self) -> tuple[str, ...]:
        """The objectives, one or two, in the command line's syntax."""
        return (self.goal,) if self.second is None else (self.goal, self.second.goal)

    @property
    def axes(self) -> "tuple[Objective, Objective] | None":
        """The two objectives of the search, or the time and the only metric; None if only the time is minimised."""
        if self.second is not None:
            return self.first, self.second
        return None if self.metric is None else (replace(self, metric=None, direction="minimise"), self)

    @property
    def called(self) -> str:
        """Name of the optimised quantity: ``time``, or the metric's expression."""
        return "time" if self.metric is None else self.metric

    def metric_text(self, cost: float | None) -> str:
        """Return the metric's value at a cost as text, or a dash if the cost is None."""
        return "–" if cost is None else significant(self.value(cost))

    def value(self, cost: float) -> float:
        """Return the metric's value at a cost: the reciprocal of the cost if the metric is maximised, else the cost."""
        return 1.0 / cost if self.direction == "maximise" else cost


def objective_text(objective: Objective) -> str:
    """Describe the objective in words.

    Example: ``lowest median time of a call, in µs: cache hot, 1 thread, launch plain, accumulator float32, …``.
    """
    quantity = "lowest median time of a call, in µs"
    if objective.metric is not None:
        quantity = f"{'highest' if objective.direction == 'maximise' else 'lowest'} `{objective.metric}`"
    order = "same output in each run" if objective.deterministic else "output may differ between runs"
    target = "" if objective.target is None else f", for {objective.target}"
    return (
        f"{quantity}: cache {objective.cache}, {count_text(objective.threads, 'thread')}, "
        f"launch {objective.launch}, accumulator {objective.accumulate}, {order}, timing protocol "
        f"{objective.protocol}{target}"
    )


def front(points: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Return the indices of the points on the Pareto front; smaller coordinates are better."""
    found, least, earlier = set[int](), float("inf"), None
    for index in sorted(range(len(points)), key=points.__getitem__):
        if points[index][1] < least or points[index] == earlier:
            found.add(index)
            least, earlier = points[index][1], points[index]
    return frozenset(found)
