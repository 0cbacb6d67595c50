"""Compare a mission's goals with the reached times and with the least possible time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from evo.device import Device
from evo.device.estimate.roofline import device_roofline
from evo.device.estimate.target import known
from evo.export.table import table
from evo.family import Work
from evo.messages.view import SearchView
from evo.report.mission import Goal, Mission
from evo.text.wording import factor_text, time_text
from evo.trial.objective import Objective

CACHES: tuple[Literal["hot", "cold"], ...] = ("hot", "cold")


@dataclass(frozen=True)
class Limits:
    """Roofline limits of a device in µs, by cache mode; false if none is known."""

    floors_us: Mapping[str, float]

    @classmethod
    def of(cls, device: Device, work: Work | None, objective: Objective) -> "Limits":
        """Return the limits with all data in the cache, and with no data in it."""
        floors_us: dict[str, float] = {}
        for cache in CACHES:
            limit = device_roofline(device, work, replace(objective, cache=cache))
            if limit is not None and limit.floor_us > 0:
                floors_us[cache] = limit.floor_us
        return cls(floors_us)

    def __bool__(self) -> bool:
        return bool(self.floors_us)

    def __str__(self) -> str:
        return " and ".join(f"{time_text(floor_us)} {cache}" for cache, floor_us in self.floors_us.items())

    @property
    def least_us(self) -> float:
        """Lower bound of every kernel's time; 0 if no limit is known."""
        return min(self.floors_us.values(), default=0.0)


def goals_table(mission: Mission, search: SearchView, work: Work | None, reached_us: float) -> str:
    """Return each goal with its status. A rehearsal's goals are not compared, because its problem is another one."""
    if mission.rehearsal:
        rows = [(time_text(goal.time_us), goal.source, "not compared") for goal in mission.goals]
        return table((f"goal on {mission.model}", "from", "in this rehearsal"), rows)
    limits = Limits.of(known(mission.model), work, search.objective)
    bound = f"\n\nThe least possible time on {mission.model} is {limits}, by its datasheet." if limits else ""
    same = search.device.model == mission.model
    judged = _on_the_model if same else _elsewhere
    rows = [(time_text(goal.time_us), goal.source, judged(goal, reached_us, limits.least_us)) for goal in mission.goals]
    here = "here" if same else f"on {search.device.model}, which cannot be compared"
    return table((f"goal on {mission.model}", "from", here), rows) + bound


def _on_the_model(goal: Goal, reached_us: float, least_us: float) -> str:
    """Judge a goal; a reached time counts as possible, whatever the datasheet's clocks imply."""
    if reached_us <= goal.time_us:
        return "reached"
    return _impossible(goal, least_us) or f"open: {factor_text(reached_us / goal.time_us)} of it"


def _elsewhere(goal: Goal, reached_us: float, least_us: float) -> str:
    if impossible := _impossible(goal, least_us):
        return impossible
    if reached_us <= goal.time_us:
        return "a shorter time here"
    return f"a longer time here: {factor_text(reached_us / goal.time_us)} of it"


def _impossible(goal: Goal, least_us: float) -> str | None:
    return f"impossible in this dtype: it takes {time_text(least_us)} at least" if goal.time_us < least_us else None
