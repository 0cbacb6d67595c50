"""The mission as data: attention at two shapes on an NVIDIA L4, and the times it is held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evo.messages.view import SearchView, TrialView


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A time to reach on the mission's GPU."""

    time_us: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Mission:
    """What is searched, and the times it is held against.

    Attributes:
        problems: shapes, each searched by itself for an equal part of the time.
        model: the GPU that the goals are for.
        policy: fields that override the default policy's; none leaves it as it is.
        trials: of each search at most; None: the time alone ends them.
        rehearsal: small, so that the whole way is walked; its figures stand for nothing else.
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
    """What a search of one of the shapes came to; `best` with its outcome, None where nothing could be measured."""

    search: SearchView
    best: TrialView | None
