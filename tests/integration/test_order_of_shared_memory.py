"""Barriers order all accesses of the attention kernels to shared memory.

The tests find missing barriers even if all results are right. They also show whether a race that compute-sanitizer
reports exists.
"""

import re
from dataclasses import replace

import numpy as np
import pytest

from evo.trial import Config, Value
from evo.trial.objective import Objective
from templates.registry import find
from tests.integration.test_cuda_on_host import ALL_KEYS, FEW, SDPA, declared, reference
from tests.simt.host import BACKWARD, FORWARD, build, compiler, error
from tests.tiers import one_in

pytestmark = pytest.mark.skipif(compiler() is None, reason="g++ is not installed")

RINGS: dict[str, Value] = {
    "BLOCK_M": 80,
    "WARPS_M": 5,
    "COPY_TOGETHER": False,
    "V_STAGES": 0,
    "WARPS_KV": 2,
    "BLOCK_N": 32,
}
RINGS |= {"LAYOUT": "none", "ROW_SUM": "each_tile", "RESCALE": "always", "PARTS_APART": True, "STORE": "direct"}
RINGS |= {"KV_SPLITS": 2, "PRODUCER_WARPS": 1, "POLYNOMIALS": 3, "HEADS_TOGETHER": 4, "L2_PREFETCH": 256}
"""Config in which producer warps copy k and v by cp.async, so that racecheck examines the copies."""
ONE_RELEASES: dict[str, Value] = {
    **RINGS,
    "COPY": "tma",
    "LAYOUT": "xor_swizzle",
    "BLOCK_M": 32,
    "WARPS_M": 2,
    "WARPS_KV": 1,
}
ONE_RELEASES |= {"PARTS_APART": False, "KV_SPLITS": 1}
"""Config in which one lane releases a tile for its warp, because the TMA unit copies."""
ITEMS: Config = {"WARPS_KV": 1, "BLOCK_N": 32, "CTAS_PER_SM": 1, "COPY_TOGETHER": False, "STORE": "staged"}
NO_KEYS: Config = {**ALL_KEYS, "WARPS_KV": 1, "KV_SPLITS": 3, "RESCALE": "always", "STORE": "staged"}
LATE: Config = {**NO_KEYS, "BLOCK_N": 32, "TILE_READY": "mbarrier"}
BOXES: dict[str, Value] = {
    "COPY": "tma",
    "PRODUCTS": "wgmma",
    "PRODUCER_WARPS": 1,
    "WARPS_M": 4,
    "BLOCK_M": 64,
    "WARPS_KV": 2,
}
BOXES |= {"COPY_TOGETHER": False, "PARTS_APART": True, "Q_IN_REGISTERS": False, "STORE": "stmatrix"}
ORDERED: list[tuple[str, Config]] = [
    ("B=1,H=2,S=171,D=64", RINGS),
    ("B=3,H=2,S=139,D=64,lengths=ragged", NO_KEYS),
    ("B=1,H=2,KV=2,S=70,S_KV=267,D=64,causal=true,window=70", LATE),
    ("B=2,H=4,S=70,D=64", ITEMS),
    ("B=1,H=2,S=139,D=64,causal=true", {"QK_AHEAD": True, "STORE": "stmatrix", "MERGE": "spread"}),
    ("B=1,H=1,S=203,D=64", BOXES),
]
"""Attention whose ring buffers, buffers of q, and buffers for merging are reused."""

PIPELINE, MERGE = "include/attention/pipeline.cuh.j2", "include/attention/merge.cuh.j2"
MISSING: dict[str, tuple[str, Config, str, str]] = {
    "warp before it releases a tile": (ORDERED[0][0], ONE_RELEASES, PIPELINE, "__syncwarp();"),
    "readers of the previous tile": (*ORDERED[0], PIPELINE, "barrier_await(empty(FIRST + place), (round - 1) & 1);"),
    "copies of a tile": (*ORDERED[0], PIPELINE, "barrier_await(full(FIRST + count % SLOTS), count / SLOTS & 1);"),
    "results of the other warps": (*ORDERED[0], MERGE, "put_parts(sum, softmax);\n            meet<WORKERS>();"),
    "copies of q without keys": (*ORDERED[1], PIPELINE, "if constexpr (UNSEEN_Q) meet<WORKERS>();"),
    "copies of q without keys, by mbarrier": (*ORDERED[2], PIPELINE, "if constexpr (UNSEEN_Q) meet<WORKERS>();"),
    "reads of the previous result": (
        *ORDERED[3],
        "kernel.cu.j2",
        "meet<WORKERS>();  // q replaces the previous result",
    ),
    "rows staged by other lanes": (*ORDERED[3], MERGE, "__syncwarp();\n        constexpr int COUNT"),
}
"""Attention kernels that lack a barrier, by what it waits for: problem, config, file, and the text of the barrier."""


def found(text: str, change: Config, file: str = "", barrier: str = "") -> list[str]:
    """Return the fault in each of two execution orders, if any, after a barrier was removed."""
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, FEW, Objective())
    if file:
        sound = package.files[file].decode()
        assert barrier in sound
        without = re.sub(r"(__syncwarp|meet<WORKERS>|barrier_await)\(.*\);", ";", barrier)
        package = replace(package, files={**package.files, file: sound.replace(barrier, without).encode()})
    kernel = build(package, config, problem, FEW, check_order=True)
    inputs = reference(package).inputs(problem, "normal", np.random.default_rng(5))
    faults = []
    for order, eager in ((FORWARD, False), (BACKWARD, True)):
        try:
            assert error(kernel(inputs, order=order, eager=eager), reference(package).reference(problem, inputs)) < 1e-3
        except AssertionError as fault:
            faults.append(str(fault))
    return faults


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "change"),
    one_in(2, ORDERED),
    ids=["ring", "no keys", "no keys, by mbarrier", "several items", "spread merge", "tma"],
)
def test_barriers_order_all_accesses_of_attention_to_shared_memory(text: str, change: Config) -> None:
    assert found(text, change) == []


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change", "file", "barrier"), one_in(4, MISSING.values()), ids=list(MISSING))
def test_host_simulation_finds_a_missing_barrier_between_accesses_to_shared_memory(
    text: str, change: Config, file: str, barrier: str
) -> None:
    faults = found(text, change, file, barrier)
    assert faults
    assert all("no barrier orders them" in fault for fault in faults)
