"""The brief for proposers of variants of a search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from evo.messages.view.variant import VariantSource, VariantView
from evo.trial import Config, Value


@dataclass(frozen=True, kw_only=True)
class TriedView:
    """A variant with its source.

    Attributes:
        config: its best config; None if none was timed.
        resources: registers, shared memory and so on of the best config, as the compiler reports them.
        profile: counters of the profiler, where its champion was profiled.
    """

    view: VariantView
    source: VariantSource
    config: Config | None = None
    resources: Mapping[str, float]
    profile: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class BriefView:
    """Contract, device and earlier variants, in a fixed order.

    Attributes:
        signature: signature of the function to write, for the problem's dtypes.
        arguments: name, role, dtype, shape and tolerance of each argument of the problem, as text.
        cases: correctness cases as text; hidden ones are only counted.
        device: facts about the device that a kernel author needs.
        floor_us, bound: the least time that the problem takes on this device, and the resource that limits it; None if
            unknown.
        baselines: time of each baseline in microseconds.
        tried: variants with a time, fastest first.
        failed: variants of which no config was measured, latest first.
        unexplored: hints at mechanisms that no variant uses yet.
    """

    search_id: int
    family: str
    title: str
    description: str
    kind: str
    problem: Mapping[str, Value]
    signature: str
    entry: str
    arguments: tuple[str, ...]
    cases: tuple[str, ...]
    hidden_cases: int
    objective: str
    device: Mapping[str, Any]
    floor_us: float | None
    bound: str | None
    baselines: Mapping[str, float]
    tried: tuple[TriedView, ...]
    failed: tuple[TriedView, ...]
    unexplored: tuple[str, ...]
