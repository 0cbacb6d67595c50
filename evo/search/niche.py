"""Niches: groups of variants whose fastest kernels have the same mechanisms, distribution of blocks, and bottleneck.

A niche is defined by what the kernel uses, by the problem fields over which its blocks are distributed, and by what
bounds its time. All three are measured: from the binary, from its launches, and from its time or its profile.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from evo.device.estimate.roofline import BUSY, Bound, Roofline
from evo.trial import quick_time_us
from evo.trial.outcome import Estimated, Measured, Outcome


@dataclass(frozen=True, kw_only=True)
class Niche:
    """The properties that the kernels of a niche share.

    Attributes:
        mechanisms: hardware mechanisms that the binary uses, and the problem fields over which its blocks are
            distributed. Empty if unknown.
        bound: what bounds the quick time: a resource or latency. None if neither a limit nor a profile is known.
    """

    mechanisms: tuple[str, ...] = ()
    bound: Bound | None = None

    @property
    def name(self) -> str:
        """The properties as text, e.g. ``SIMD 512, FMA, bound by memory``; empty if none is known."""
        return ", ".join((*self.mechanisms, *([] if self.bound is None else [f"bound by {self.bound}"])))


def niche_of(outcome: Outcome | None, roofline: Roofline | None, counters: Mapping[str, float]) -> Niche:
    """Return the niche of a kernel.

    A profile that shows a busy resource decides what bounds the time. Otherwise, the time is compared with the roofline
    (`evo.device.estimate.roofline.Roofline.bound_at`).

    Args:
        outcome: outcome of the kernel's trial; None if the trial is pending.
        roofline: the device's roofline; None if unknown.
        counters: counters of the kernel's profile, by the names in `evo.device.counters.FIGURES`. Empty if it has no
            profile.
    """
    bound = _busy(counters)
    if bound is None and roofline is not None:
        bound = roofline.bound_at(quick_time_us(outcome))
    return Niche(mechanisms=outcome.mechanisms if isinstance(outcome, Measured | Estimated) else (), bound=bound)


def _busy(counters: Mapping[str, float]) -> Bound | None:
    """Return the resource that is busy according to a profile: main memory or the tensor units; None if neither is."""
    memory, tensor = counters.get("dram_share", 0.0), counters.get("tensor_active", 0.0)
    if max(memory, tensor) < BUSY:
        return None
    return "memory" if memory >= tensor else "arithmetic"
