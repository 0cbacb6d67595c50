"""Estimates a kernel's time on a GPU that is not present, from the roofline and the launch's utilisation.

This coarse model ranks builds of one problem. It ignores bank conflicts, instruction mix and repeated reads, so configs
that differ only in these properties have equal estimates.
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
"""Number of warp schedulers of a multiprocessor, from sm_70 to sm_120."""

LAUNCH_US = 0.7
"""Minimum duration of a launch in µs. The shortest measured time is 0.71 µs, for an empty kernel in a graph of plain
launches on an H200 (docs/results). Other GPUs are assumed not to be faster.
"""


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """Resources used by one launch of a build.

    Attributes:
        blocks: number of blocks in the grid.
        threads: number of computing threads per block. Threads that only copy are excluded because they hide no
            latency.
        items: number of work items that the blocks share, equal to `blocks` if each block processes one item.
        blocks_per_sm: number of blocks that fit on a multiprocessor of the target at the same time, at least 1.
        spill_bytes: bytes that each thread stores and loads for spills.
        effort: number of arithmetic operations, relative to the number in the family's [work] table.
    """

    blocks: int
    items: int
    threads: int
    blocks_per_sm: int
    spill_bytes: int = 0
    effort: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimated time and its parts.

    Attributes:
        floor_us: roofline time of a kernel that does the same arithmetic as the build and reads each byte only once.
        balance: mean work per multiprocessor, divided by the largest work of a multiprocessor; 1.0 if all are equal.
        hiding: fraction of the time in which a scheduler has a warp that is ready to issue an instruction.
        spill_us: time for moving spilled registers to and from memory.
        launch_us: time of the launch itself, in addition to its work.
        bytes: minimum number of bytes that the problem moves.
        cached_bytes: part of `bytes` that is assumed to be in the L2 cache.
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
    """Estimate the time of one build on the target.

    Each warp is assumed to wait as long as it computes. If a scheduler has w resident warps, at least one of them is
    then ready during the fraction w / (w + 1) of the time.

    Raises:
        InvalidInput: the family has no [work] table, or the target has no ceilings.
    """
    if work is None:
        raise InvalidInput("device", "the family has no [work] table, from which times are estimated; add it")
    limit = stream_roofline(target, replace(work, flops=work.flops * used.effort), objective)
    if limit is None or target.ceilings is None:
        reason = f"the peak rates of {target.model}, from which times are estimated, are unknown"
        raise InvalidInput("device", f"{reason}; choose another target")
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
