"""Niches: the variants of a search whose fastest kernels work alike.

A niche is defined by what the kernel uses, by the problem fields over which its blocks are distributed, and by what
bounds its time (`evo.device.estimate.roofline.Roofline.bound_at`). All three are measured: from the binary, from its
launches, and from its time.
"""

from collections.abc import Sequence

from evo.trial.outcome import Estimated, Measured, Outcome


def mechanisms_of(outcome: Outcome | None) -> tuple[str, ...]:
    """Return what the kernel of a trial uses, and over which fields its blocks are distributed; empty if unknown."""
    return outcome.mechanisms if isinstance(outcome, Measured | Estimated) else ()


def niche_of(mechanisms: Sequence[str], bound: str | None) -> tuple[str, ...]:
    """Return the properties that the kernels of a niche share, as texts, e.g. ``mma`` and ``bound by memory``."""
    return (*mechanisms, *([] if bound is None else [f"bound by {bound}"]))
