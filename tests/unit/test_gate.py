"""Builds that exceed a resource limit of the policy are refused."""

import pytest

from evo.promotion.policy import POLICIES, Policy
from evo.trial.outcome import OverResources
from workers.build import Resources
from workers.build.build import gate

NOTES = POLICIES["l4-notes"]


@pytest.mark.parametrize(
    ("resources", "policy", "refusal"),
    [
        (Resources(), NOTES, None),
        (Resources(registers=96, shared_memory_bytes=48 << 10, occupancy=0.25), NOTES, None),
        (Resources(registers=97), NOTES, OverResources(resource="registers", used=97, limit=96)),
        (Resources(occupancy=0.2), NOTES, OverResources(resource="occupancy", used=0.2, limit=0.25)),
        (Resources(registers=255, shared_memory_bytes=200 << 10, occupancy=0.1), Policy(), None),
        (Resources(stack_bytes=8), Policy(), OverResources(resource="stack_bytes", used=8, limit=0)),
        (Resources(spill_bytes=8), Policy(max_spill_bytes=None), None),
    ],
)
def test_build_that_exceeds_the_resource_limits_of_the_policy_is_refused(
    resources: Resources, policy: Policy, refusal: OverResources | None
) -> None:
    assert gate(resources, policy) == refusal


def test_list_of_build_resources_omits_unknown_values() -> None:
    assert Resources(registers=40, spill_bytes=0).figures() == {"registers": 40.0, "spill_bytes": 0.0}
