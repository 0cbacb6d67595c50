"""Resource gates of a policy, applied before a kernel runs."""

from collections.abc import Iterator

from evo.promotion.policy import Policy
from evo.trial.outcome import OverResources
from workers.build import Resources


def gate(resources: Resources, policy: Policy) -> OverResources | None:
    """Return the first gate that these resources exceed; figures that the compiler does not report pass."""
    for name, used, limit in _upper_limits(resources, policy):
        if used is not None and limit is not None and used > limit:
            return OverResources(resource=name, used=used, limit=limit)
    used, least = resources.occupancy, policy.min_occupancy
    if used is not None and least is not None and used < least:
        return OverResources(resource="occupancy", used=used, limit=least)
    return None


def _upper_limits(resources: Resources, policy: Policy) -> Iterator[tuple[str, float | None, float | None]]:
    yield "registers", resources.registers, policy.max_registers
    yield "shared_memory_bytes", resources.shared_memory_bytes, policy.max_shared_memory_bytes
    yield "stack_bytes", resources.stack_bytes, policy.max_stack_bytes
    yield "spill_bytes", resources.spill_bytes, policy.max_spill_bytes
