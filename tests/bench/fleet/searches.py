"""Starts searches for simulated workers, on a large space whose configs need no compilation."""

from collections.abc import Mapping
from typing import Any

from tests.bench.fleet.wire import Wire
from tests.bench.fleet.workers import DEVICE
from tests.integration.stage import TOY

DIGEST = "f1" * 32
VALUES = 40
"""Number of values of each of the three tunables, whose 64,000 configs are more than a run needs."""

FAMILY: dict[str, Any] = {
    **TOY,
    "name": "simulated",
    "cpu": {
        **TOY["cpu"],
        "tunables": {
            name: {"values": list(range(1, VALUES + 1)), "default": 4} for name in ("BLOCK", "UNROLL", "WIDTH")
        },
        "constraints": [],
    },
}


async def begin(
    wire: Wire, count: int, *, strategy: str, trials: int | None = None, policy: Mapping[str, Any] | None = None
) -> list[int]:
    """Start `count` searches, and return their ids. A worker must already be registered."""
    await wire.ask("PUT", f"/families/{DIGEST}", {"name": "simulated", "document": FAMILY, "location": None})
    ids = []
    for seed in range(count):
        terms: dict[str, Any] = {
            "family_digest": DIGEST,
            "device": DEVICE["model"],
            "strategy": strategy,
            "seed": seed,
            "budget": {"trials": trials},
        }
        if policy is not None:
            terms["policy"] = policy
        ids.append((await wire.ask("POST", "/searches", terms))["id"])
    return ids
