"""Estimate a kernel's time on a GPU that is not present, from the roofline and the launch's utilisation.

A coarse model for ranking builds of one problem. It knows nothing of bank conflicts, instruction mix or how often data
is read again, so two configs that differ in these alone are level.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from evo.device import Device
from evo.device.estimate.roofline import kept_bytes, stream_roofline
from evo.errors import InvalidInput
from evo.family import Work
from evo.trial.objective import Objective

SCHEDULERS = 4
"""Warp schedulers of a multiprocessor, from sm_70 to sm_120."""

LAUNCH_US = 0.7
"""Least time of a launch. An empty kernel took 0.71 µs in a graph of plain launches on an H200
(docs/results), the least we measured: other GPUs are taken to be no faster."""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Resources used by one launch of a build.

    Attributes:
        blocks: of the grid.
        threads: of a block that compute; those that only copy hide nothing.
        items: pieces of work that the blocks share out; as many as blocks where each is one.
        blocks_per_sm: that fit a multiprocessor of the target at once, at least 1.
        spill_bytes: stored and loaded by each thread.
        effort: how many times the stated arithmetic it takes.
    """

    blocks: int
    items: int
    threads: int
    blocks_per_sm: int
    spill_bytes: int = 0
    effort: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A modelled time.

    Attributes:
        floor_us: of the roofline for a stream; what a perfect kernel that takes the same effort would take.
        balance: mean work per multiprocessor over that of the busiest one: 1.0 where the blocks divide evenly.
        hiding: share of its time a scheduler has a warp that is ready.
        spill_us: time that spilled registers take in memory.
        launch_us: of the launch itself, on top of its work.
        bytes: that the problem moves at least.
        cached_bytes: of these, taken to be found in the L2 cache.
    """

    floor_us: float
    balance: float
    hiding: float
    spill_us: float
    launch_us: float = LAUNCH_US
    bytes: float = 0.0
    cached_bytes: float = 0.0

    @property
    def time_us(self) -> float:
        return self.launch_us + self.floor_us / (self.balance * self.hiding) + self.spill_us

    @property
    def parts(self) -> Mapping[str, float]:
        return dict(vars(self))


def estimate(work: Work | None, target: Device, used: Footprint, objective: Objective) -> Estimate:
    """The estimate for one build.

    With w resident warps for each scheduler, each waiting as long as it computes, one is ready w / (w + 1) of the time.

    Raises:
        InvalidInput: the family states no work, so there is nothing to estimate from.
    """
    limit = stream_roofline(target, work and replace(work, flops=work.flops * used.effort), objective)
    if work is None or limit is None or target.ceilings is None:
        raise InvalidInput("device", "the family states no [work]: there is nothing to estimate its time from")
    multiprocessors = int(target.limits["sm_count"])
    busiest = math.ceil(used.blocks / multiprocessors)
    each, left = divmod(used.items, used.blocks)
    most_items = busiest * each + math.ceil(left / multiprocessors)
    warps = min(busiest, used.blocks_per_sm) * math.ceil(used.threads / target.limits["warp_size"]) / SCHEDULERS
    return Estimate(
        floor_us=limit.floor_us,
        balance=used.items / (multiprocessors * most_items),
        hiding=warps / (warps + 1.0),
        spill_us=used.blocks * used.threads * used.spill_bytes / target.ceilings.bytes_per_s * 1e6,
        bytes=work.bytes,
        cached_bytes=kept_bytes(work.bytes, target.limits.get("l2_bytes", 0.0)) if objective.cache == "hot" else 0.0,
    )
