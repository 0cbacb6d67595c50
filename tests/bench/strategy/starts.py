"""``python -m tests.bench.strategy.starts``: recorded time of each start of a family on the recorded problems.

A start is looked up in the recording. If the start was not recorded, the fastest of the recorded configs that differ in
the fewest tunables is used instead; the table states the number of differences.
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
    """A start's recorded time.

    Attributes:
        ratio: ratio of the start's time to the fastest recorded time.
        rank: number of recorded configs that are faster than the start.
        differs: tunables in which the recorded config differs from the start.
    """

    label: str
    ratio: float
    rank: int
    differs: Sequence[str]


def looked_up(recorded: Recorded, label: str, config: Config) -> Worth:
    """Look up a complete config of the family's space in the recording."""
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
    """Look up the default config and each start that applies to the recorded problem."""
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
