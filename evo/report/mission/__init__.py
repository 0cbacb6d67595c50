"""The mission as data: attention at two shapes on an NVIDIA L4, and its target times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evo.messages.view import SearchView, TrialView


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A target time on the mission's GPU."""

    time_us: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Mission:
    """Problems of a mission, and its target times.

    Attributes:
        problems: shapes, searched one after another for equal parts of the time.
        model: the GPU of the goals.
        policy: fields that override the default policy.
        trials: largest number of trials of each search; None: only the time limits them.
        rehearsal: True for a small run that only exercises the whole procedure; its figures mean nothing else.
    """

    family: str = "sdpa"
    problems: tuple[str, ...] = ("B=2,H=8,S=256,D=64", "B=2,H=8,S=512,D=64")
    model: str = "NVIDIA L4"
    goals: tuple[Goal, ...] = ()
    policy: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None
    rehearsal: bool = False


GOALS = (
    Goal(time_us=47.0, source="PyTorch's attention, as noted before"),
    Goal(time_us=24.2, source="xFormers (CUTLASS), as noted before"),
    Goal(time_us=16.0, source="first target"),
    Goal(time_us=12.0, source="FP8 hoped for, upper end"),
    Goal(time_us=8.0, source="FP8 hoped for, lower end"),
    Goal(time_us=5.0, source="last target"),
)

MISSION = Mission(goals=GOALS)

REHEARSAL = Mission(
    problems=("B=1,H=1,S=32,D=16", "B=1,H=1,S=64,D=16"),
    goals=GOALS,
    policy={"quick_samples": 5, "confirm_samples": 10, "confirm_processes": 2, "most_processes": 4, "seeds": 1},
    trials=2,
    rehearsal=True,
)


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of the search of one shape; `best` with its outcome, None if nothing could be measured."""

    search: SearchView
    best: TrialView | None
