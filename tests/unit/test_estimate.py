"""The estimate includes the load balance of blocks, the hiding of latency, and the cost of spills."""

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from evo.device import Device
from evo.device.estimate.estimate import LAUNCH_US, Estimate, Footprint, estimate
from evo.device.estimate.target import known
from evo.errors import InvalidInput
from evo.family import Work
from evo.trial import Config
from evo.trial.explain import detail_text
from evo.trial.objective import Objective
from evo.trial.outcome import Estimated
from templates.registry import find

L4 = known("NVIDIA L4")
HOT = Objective()
WORK = Work(flops=4 * 16 * 64 * 512 * 512, bytes=4 * 16 * 512 * 64 * 2, dtype="float16")
"""Work of attention with B=2, H=8, S=512 and D=64."""


@pytest.mark.parametrize(("rows", "balance"), [(128, 0.55), (64, 0.74), (32, 0.88), (16, 0.98)])
def test_estimated_load_balance_follows_from_blocks_and_multiprocessors(rows: int, balance: float) -> None:
    used = Footprint(blocks=16 * 512 // rows, items=16 * 512 // rows, threads=128, blocks_per_sm=3)
    assert estimate(WORK, L4, used, HOT).balance == pytest.approx(balance, abs=0.01)


def test_estimated_load_balance_of_persistent_blocks_follows_from_their_items() -> None:
    used = Footprint(blocks=58 * 2, items=128, threads=128, blocks_per_sm=2)
    assert estimate(WORK, L4, used, HOT).balance == pytest.approx(128 / (58 * 3))
    assert estimate(WORK, L4, replace(used, items=58 * 2 * 3), HOT).balance == 1.0


def test_estimated_lower_bound_is_the_roofline_of_the_target() -> None:
    used = Footprint(blocks=58, items=58, threads=128, blocks_per_sm=1)
    assert estimate(WORK, L4, used, HOT).floor_us == pytest.approx(8.9, abs=0.1)
    assert estimate(WORK, L4, used, Objective(cache="cold")).floor_us == pytest.approx(14.0, abs=0.1)


FULL = Footprint(blocks=58 * 64, items=58 * 64, threads=256, blocks_per_sm=6)


@pytest.mark.parametrize(
    ("megabytes", "cached"), [(4, 1.0), (24, 1.0), (36, 0.568), (50.4, 0.0), (67, 0.0), (512, 0.0)]
)
def test_estimated_share_of_cached_bytes_falls_with_the_number_of_bytes(megabytes: float, cached: float) -> None:
    """The L4's L2 cache holds 50.3 MB and its memory delivers 300 GB/s."""
    work = Work(flops=0, bytes=megabytes * 1e6, dtype="float16")
    found = estimate(work, L4, FULL, HOT)
    assert found.cached_bytes == pytest.approx(cached * work.bytes, rel=0.01)
    assert found.floor_us >= (1 - cached) * work.bytes / 300e9 * 1e6 * 0.99
    cold = estimate(work, L4, FULL, Objective(cache="cold"))
    assert cold.cached_bytes == 0
    assert cold.floor_us == pytest.approx(work.bytes / 300e9 * 1e6, rel=0.01)
    assert found.floor_us <= cold.floor_us * 1.001


def test_estimated_lower_bound_grows_with_the_bytes_moved() -> None:
    floors = [
        estimate(Work(flops=0, bytes=size * 1e6, dtype="float16"), L4, FULL, HOT).floor_us for size in range(1, 200)
    ]
    assert floors == sorted(floors)


def test_additional_arithmetic_raises_the_estimated_lower_bound_if_compute_bound() -> None:
    used = Footprint(blocks=58, items=58, threads=128, blocks_per_sm=1)
    twice = estimate(WORK, L4, replace(used, effort=2.0), HOT)
    assert twice.floor_us == 2 * estimate(WORK, L4, used, HOT).floor_us
    of_memory = replace(used, effort=1.1)
    assert estimate(WORK, L4, of_memory, Objective(cache="cold")).floor_us == pytest.approx(14.0, abs=0.1)


@pytest.mark.parametrize(
    ("family", "architecture", "change", "effort"),
    [
        ("sdpa_fp8", "sm_89", {"PV": "e4m3"}, 1),
        ("sdpa_fp8", "sm_89", {"PV": "half"}, 1.5),
        ("sdpa_fp8", "sm_90", {"PV": "e4m3"}, 2),
        ("sdpa_fp8", "sm_90", {"PV": "split"}, 3),
        ("sdpa_fp8", "sm_90", {"PRODUCTS": "wgmma"}, 1),
        ("gemm_fp8", "sm_90", {"PRODUCTS": "mma"}, 2),
        ("gemm_fp8", "sm_89", {"PRODUCTS": "mma"}, 1),
        ("sdpa", "sm_90", {}, 1),
    ],
)
def test_emulated_and_mixed_precision_products_count_as_more_arithmetic(
    family: str, architecture: str, change: Config, effort: float
) -> None:
    subject = find(family).family
    config = {each.name: each.values[each.default_index] for each in subject.implementation("cuda").tunables}
    candidate = subject.candidate({**config, **change}, subject.problem("", "cuda"), known(architecture), HOT)
    assert candidate.effort == effort


@pytest.mark.parametrize("family", ["sdpa", "sdpa_fp8"])
def test_estimated_arithmetic_of_attention_grows_with_the_sequence_length(family: str) -> None:
    subject = find(family).family
    config = {each.name: each.values[each.default_index] for each in subject.implementation("cuda").tunables}
    efforts = []
    for length in range(200, 400):
        problem = subject.problem(f"B=1,H=8,S={length},D=64", "cuda")
        efforts.append(subject.candidate(config, problem, L4, HOT).effort * length**2)
    assert np.diff(efforts).min() >= -1e-6
    assert np.diff(efforts).max() > 0


def test_warps_that_only_copy_do_not_count_as_computing() -> None:
    subject = find("sdpa").family
    config = {each.name: each.values[each.default_index] for each in subject.implementation("cuda").tunables}
    alone, beside = (
        subject.candidate(config | {"PRODUCER_WARPS": warps}, subject.problem("", "cuda"), L4, HOT) for warps in (0, 4)
    )
    assert alone.launch is not None and beside.launch is not None
    assert beside.launch.block[0] == alone.launch.block[0] + 128
    assert alone.computing == beside.computing == alone.launch.block[0]


def test_estimated_latency_hiding_follows_from_the_resident_warps() -> None:
    def hiding(**used: int) -> float:
        return estimate(
            WORK, L4, Footprint(**{"blocks": 580, "items": 580, "threads": 128, "blocks_per_sm": 1, **used}), HOT
        ).hiding

    assert hiding() == 0.5
    assert hiding(blocks_per_sm=3) == 0.75 == hiding(threads=384)
    assert hiding(blocks=58, blocks_per_sm=3) == 0.5


def test_estimate_is_above_the_lower_bound_and_includes_the_cost_of_spills() -> None:
    used = Footprint(blocks=58 * 12, items=58 * 12, threads=128, blocks_per_sm=12)
    clean = estimate(WORK, L4, used, HOT)
    spilled = estimate(WORK, L4, replace(used, spill_bytes=64), HOT)
    assert clean.floor_us < clean.time_us - LAUNCH_US < 1.1 * clean.floor_us
    assert spilled.time_us == pytest.approx(clean.time_us + 58 * 12 * 128 * 64 / 300e9 * 1e6, rel=0.01)
    names = {"floor_us", "balance", "hiding", "spill_us", "launch_us", "bytes", "cached_bytes"}
    assert set(spilled.parts) == names


def test_estimate_is_at_least_the_time_of_an_empty_launch() -> None:
    """The roofline of a softmax of a few rows is below a nanosecond."""
    tiny = Work(flops=1024, bytes=256, dtype="float16")
    guess = estimate(tiny, L4, Footprint(blocks=58, items=58, threads=128, blocks_per_sm=1), HOT)
    assert guess.floor_us < 1e-3
    assert guess.time_us > LAUNCH_US
    said = detail_text(Estimated(time_us=guess.time_us, parts=guess.parts))
    assert "the launch itself takes at least 0.7 µs" in said or "the launch itself takes at least 700 ns" in said


def test_estimate_without_work_table_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"has no \[work\] table"):
        estimate(None, L4, Footprint(blocks=1, items=1, threads=32, blocks_per_sm=1), HOT)


def test_estimate_for_a_target_without_peak_rates_is_refused() -> None:
    work = Work(flops=1024, bytes=256, dtype="float16")
    with pytest.raises(InvalidInput, match=r"the peak rates of NVIDIA L4, .*, are unknown; choose another target"):
        estimate(work, replace(L4, ceilings=None), Footprint(blocks=1, items=1, threads=32, blocks_per_sm=1), HOT)


WIDE = Footprint(blocks=58 * 64, items=58 * 64, threads=256, blocks_per_sm=6)


def transfer(size_bytes: float, cache: Literal["hot", "cold"] = "hot", target: Device = L4) -> Estimate:
    return estimate(Work(flops=1.0, bytes=size_bytes, dtype="float32"), target, WIDE, Objective(cache=cache))


@pytest.mark.parametrize("target", [known("sm_80"), L4, known("NVIDIA H100 80GB HBM3"), known("NVIDIA H200")])
def test_transfers_larger_than_the_cache_use_the_memory_rate_on_every_target(target: Device) -> None:
    assert target.ceilings is not None
    cache, rate = target.limits["l2_bytes"], target.ceilings.bytes_per_s
    for times in (1.0, 1.1, 2, 16):
        hot, cold = transfer(times * cache, target=target), transfer(times * cache, "cold", target)
        assert hot.floor_us == cold.floor_us == pytest.approx(times * cache / rate * 1e6)
        assert hot.cached_bytes == cold.cached_bytes == 0.0


def test_estimated_lower_bound_grows_with_the_bytes_below_and_above_the_cache_size() -> None:
    times = [transfer(share * L4.limits["l2_bytes"]).floor_us for share in np.linspace(0.05, 3.0, 200)]
    assert np.diff(times).min() > 0


@pytest.mark.parametrize(
    ("share", "measured_us"), [(1.0, 18.7), (1.5, 29.4), (2.0, 38.0), (4.0, 72.5), (8.0, 141.4), (16.0, 279.3)]
)
def test_estimated_lower_bound_is_within_25_percent_of_copies_measured_on_an_h100(
    share: float, measured_us: float
) -> None:
    """`share` is the number of bytes divided by the 50 MiB of the cache; `measured_us` is a median of 360 launches."""
    h100 = known("NVIDIA H100 80GB HBM3")
    assert 0.75 * measured_us < transfer(share * h100.limits["l2_bytes"], target=h100).floor_us < measured_us
