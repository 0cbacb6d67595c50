"""The roofline gives a lower bound of the time of a problem, and the share of this limit that a kernel reaches."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest

from evo.device import Ceilings, Device
from evo.device.estimate.roofline import Roofline, device_roofline, roofline
from evo.family import Work
from evo.messages.view import RooflineView
from evo.search.niche import niche_of
from evo.trial.objective import Objective
from evo.trial.outcome import Crashed, Measured
from evo.trial.timing import Timing

CEILINGS = Ceilings(flops_per_s={"float32": 100e9}, bytes_per_s=10e9, source="measured")


def work(flops: float, moved: float, dtype: str = "float32") -> Work:
    return Work(flops=flops, bytes=moved, dtype=dtype)


def test_roofline_is_the_longer_of_arithmetic_time_and_memory_time() -> None:
    assert roofline(work(1e6, 1e4), CEILINGS) == Roofline(floor_us=10.0, bound="compute", tolerance=0.4)
    assert roofline(work(1e4, 1e6), CEILINGS) == Roofline(floor_us=100.0, bound="memory", tolerance=0.4)


def test_roofline_of_attention_on_an_l4_equals_the_known_times() -> None:
    """B=2, H=8, S=512, D=64 in FP16 needs 8.9 µs on tensor cores (121 TFLOP/s) and 14 µs for DRAM (300 GB/s)."""
    l4 = Ceilings(flops_per_s={"float16": 121e12}, bytes_per_s=300e9, source="table")
    problem = work(4 * 2 * 8 * 512 * 512 * 64, 4 * 2 * 8 * 512 * 64 * 2, "float16")
    from_memory, from_cache = roofline(problem, l4), roofline(problem, l4, cached_bytes=48 << 20)
    assert from_memory == Roofline(floor_us=from_memory.floor_us, bound="memory")
    assert from_memory.floor_us == pytest.approx(14.0, abs=0.05)
    assert from_cache == Roofline(floor_us=from_cache.floor_us, bound="compute")
    assert from_cache.floor_us == pytest.approx(8.9, abs=0.05)


def test_roofline_gives_the_share_of_the_limit_and_detects_impossible_times() -> None:
    limit = Roofline(floor_us=10.0, bound="compute")
    assert limit.share(40.0) == 0.25
    assert not limit.impossible(10.0)
    assert not limit.impossible(8.1)
    assert limit.impossible(7.9)


def test_bandwidth_measured_on_a_busy_machine_does_not_mark_kernels_as_impossible() -> None:
    """A first measurement gave 14.9 GB/s, and a later measurement gave 20.9 GB/s."""
    busy = Ceilings(flops_per_s={"float32": 100e9}, bytes_per_s=14.9e9, source="measured")
    true_us = 1e6 / 20.9e9 * 1e6
    assert not roofline(work(1.0, 1e6), busy).impossible(true_us)
    assert roofline(work(1.0, 1e6), busy).impossible(true_us / 2)
    assert roofline(work(1.0, 1e6), replace(busy, bytes_source="table")).impossible(true_us), (
        "a datasheet value does not depend on load"
    )


def test_roofline_of_an_unknown_dtype_includes_only_the_memory_time() -> None:
    assert roofline(work(1e9, 1e4, "float8"), CEILINGS) == Roofline(floor_us=1.0, bound="memory", tolerance=0.4)


def test_roofline_time_falls_with_the_number_of_threads() -> None:
    assert roofline(work(1e6, 0), CEILINGS, threads=4).floor_us == 2.5


def test_exponentials_and_divisions_raise_the_roofline_but_not_the_minimum_time() -> None:
    ceilings = replace(CEILINGS, special_per_s={"exponentials": 1e9, "divisions": 1e12})
    softmax = replace(work(1e4, 1e4), special={"exponentials": 1e4, "divisions": 1e4, "conversions": 1e9})
    limit = roofline(softmax, ceilings, threads=2)
    assert (limit.floor_us, limit.bound, limit.least_us) == (5.0, "compute", 0.5)
    assert limit.share(10.0) == 0.5
    assert not limit.impossible(1.0), "a kernel may replace an exponential by a polynomial"
    assert limit.impossible(0.2)
    assert roofline(softmax, CEILINGS).certain_us is None


def test_roofline_of_cached_data_uses_the_copy_rate_of_the_next_smaller_size() -> None:
    copies = ((1e4, 400e9), (1e5, 100e9), (1e6, 20e9))
    here = replace(device(l3_bytes=2e6), ceilings=replace(CEILINGS, copies=copies))
    for moved, floor_us in ((5e3, 0.0), (5e4, 0.125), (5e5, 5.0), (1e6, 50.0)):
        limit = device_roofline(here, work(0.0, moved), Objective())
        assert limit is not None
        assert limit.floor_us == pytest.approx(floor_us)
        assert limit.least_us == 0.0
    cold = device_roofline(here, work(0.0, 5e5), Objective(cache="cold"))
    assert cold is not None
    assert (cold.floor_us, cold.certain_us) == (50.0, None)


def device(**limits: float) -> Device:
    return Device(kind="cpu", model="test", architecture="x", uuid="u", limits=limits, ceilings=CEILINGS)


@pytest.mark.parametrize(
    ("objective", "limits", "floor_us"),
    [
        (Objective(cache="cold"), {"l3_bytes": 2e6}, 100.0),
        (Objective(cache="hot"), {"l3_bytes": 2e6}, 0.1),
        (Objective(cache="hot"), {"l3_bytes": 0.5e6}, 50.0),
        (Objective(cache="hot"), {}, 0.1),
        (Objective(cache="cold", threads=2), {}, 50.0),
        (Objective(cache="cold"), {"l3_bytes": 1e6 * 4097}, 0.1),
    ],
)
def test_roofline_of_a_hot_measurement_counts_only_bytes_beyond_the_cache(
    objective: Objective, limits: dict[str, float], floor_us: float
) -> None:
    floor = device_roofline(device(**limits), work(1e4, 1e6), objective)
    assert floor is not None
    assert floor.floor_us == pytest.approx(floor_us)


def test_recording_has_no_roofline() -> None:
    replay = Device(kind="replay", model="m", architecture="a", uuid="u")
    assert device_roofline(replay, work(1, 1), Objective()) is None


@pytest.mark.parametrize(("floor_us", "time_us", "share"), [(10.0, 40.0, 0.25), (0.0, 40.0, None), (10.0, None, None)])
def test_share_of_an_unknown_limit_or_time_is_unknown(
    floor_us: float, time_us: float | None, share: float | None
) -> None:
    assert Roofline(floor_us=floor_us, bound="memory").share(time_us) == share
    assert RooflineView(floor_us=floor_us, bound="memory", share_of_best=None).share(time_us) == share


@pytest.mark.parametrize(
    ("resource", "time_us", "expected"),
    [
        ("memory", 100.0, "memory"),
        ("compute", 160.0, "arithmetic"),
        ("memory", 170.0, "latency"),
        ("compute", None, None),
    ],
)
def test_time_far_above_the_limit_is_bound_by_latency(
    resource: Literal["compute", "memory"], time_us: float | None, expected: str | None
) -> None:
    assert Roofline(floor_us=100.0, bound=resource).bound_at(time_us) == expected


def test_resource_that_limits_a_time_is_unknown_without_a_roofline() -> None:
    assert Roofline(floor_us=0.0, bound="memory").bound_at(10.0) is None


@pytest.mark.parametrize(
    ("counters", "bound"),
    [
        ({}, "latency"),
        ({"dram_share": 0.59, "tensor_active": 0.59}, "latency"),
        ({"dram_share": 0.6, "tensor_active": 0.3}, "memory"),
        ({"tensor_active": 0.7}, "arithmetic"),
        ({"dram_share": 0.9, "tensor_active": 0.7}, "memory"),
    ],
)
def test_slow_kernel_is_bound_by_its_busiest_resource_or_by_latency(counters: Mapping[str, float], bound: str) -> None:
    outcome = Measured(timing=Timing(samples_us=(300.0,)), mechanisms=("mma",))
    niche = niche_of(outcome, Roofline(floor_us=100.0, bound="compute"), counters)
    assert (niche.mechanisms, niche.bound, niche.name) == (("mma",), bound, f"mma, bound by {bound}")
    assert niche_of(outcome, None, counters).bound == (None if bound == "latency" else bound)


def test_niche_of_a_failed_trial_is_unknown() -> None:
    assert niche_of(Crashed(stage="verify", reason="signal 11"), None, {}).name == ""
