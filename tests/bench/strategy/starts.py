"""Finds recorded times of the starting configs (*starts*) of families: ``python -m tests.bench.strategy.starts``.

If a start has values that were not recorded, the recorded configs that differ from it in the fewest tunables are found,
and the fastest of them is used. The table states the number of differences.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from evo.device.estimate.target import known
from evo.trial import Config
from evo.trial.objective import Objective
from templates.recorded import Recorded, read
from templates.registry import find, recordings
from tests.bench.strategy.tables import table


@dataclass(frozen=True, kw_only=True)
class Worth:
    """Recorded time of a start.

    Attributes:
        ratio: the start's time divided by the fastest recorded time.
        rank: number of recorded configs that are faster than the start.
        differs: names of the tunables in which the recorded config differs from the start.
    """

    label: str
    ratio: float
    rank: int
    differs: Sequence[str]


def looked_up(recorded: Recorded, label: str, config: Config) -> Worth:
    """Return the recorded time of a complete config of the family's space."""
    ranked = [(sum(each[name] != config.get(name) for name in each), time_us) for each, time_us in recorded.results]
    nearest, time_us = recorded.results[ranked.index(min(ranked))]
    times_us = sorted(each for _, each in recorded.results)
    return Worth(
        label=label,
        ratio=time_us / times_us[0],
        rank=sum(each < time_us for each in times_us),
        differs=[name for name in nearest if nearest[name] != config.get(name)],
    )


def worths(recorded: Recorded) -> list[Worth]:
    """Return the recorded times of the default config and of each start that applies to the problem."""
    device = replace(known("sm_90"), kind="cuda", model=recorded.model)
    family = find(recorded.family).family
    problem = family.problem(recorded.problem, "cuda")
    default = family.space(problem, device, Objective()).default()
    starts = family.implementation("cuda").starts
    begun = family.begin(problem, device)
    found = [(f"start {index}", each.config) for index, each in enumerate(starts, 1) if each.config in begun]
    return [looked_up(recorded, label, {**default, **part}) for label, part in [("default", {}), *found]]


def main() -> int:
    rows = [
        [name, each.label, f"{each.ratio:.3f}", str(each.rank), ", ".join(each.differs) or "–"]
        for name, path in recordings().items()
        for each in worths(read(path))
    ]
    print(table(["recording", "config", "time / fastest", "faster configs", "differs in"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
