"""CUDA kernels are executed on the host, thread by thread, without a GPU.

These tests do not prove that the kernels are correct on a GPU. They find wrong indices, missing barriers, copies
without a wait, addresses that are out of bounds or misaligned, and assumptions about the layout of WMMA fragments.
"""

import importlib.util
import re
from dataclasses import replace
from functools import cache
from operator import itemgetter
from types import ModuleType

import numpy as np
import pytest

from evo.device.estimate.target import known
from evo.family.problem import Problem
from evo.trial import Config, Value
from evo.trial.objective import Objective
from templates.registry import Package, find
from templates.render import render
from tests.bench.steps import steps
from tests.simt.host import ORDERS, HostKernel, build, compiler, error
from tests.tiers import one_in

pytestmark = pytest.mark.skipif(compiler() is None, reason="g++ is not installed")

DEVICE = known("sm_90")
TOLERANCE = 1e-3
CAUSAL, PLAIN = "B=1,H=1,S=139,D=64,causal=true", "B=1,H=1,S=131,D=128"
LADDER = (
    ("one thread per row", CAUSAL),
    ("cp.async, two stages", CAUSAL),
    ("P overwrites S", PLAIN),
    ("XOR instead of padding", CAUSAL),
    ("sum in registers", PLAIN),
    ("three stages", CAUSAL),
)
SDPA: dict[str, Value] = {"BLOCK_M": 32, "WARPS_M": 2, "WARPS_KV": 2, "BLOCK_N": 64, "K_STAGES": 2, "V_STAGES": 2}
DIFFERENTLY = (
    {"QK_AHEAD": True, "MERGE": "spread", "STORE": "stmatrix"},
    {"COPY_TOGETHER": False, "PRODUCER_WARPS": 1, "PARTS_APART": True},
    {"COPY_TOGETHER": False, "K_STAGES": 0, "V_STAGES": 0, "TILE_READY": "mbarrier", "KV_SPLITS": 3, "WARPS_KV": 1}
    | {"RESCALE": "always"},
    {"COPY_TOGETHER": False, "PRODUCER_WARPS": 1, "PARTS_APART": True, "COPY": "tma", "CLUSTER": 2},
    {"KV_SPLITS": 2, "SPLIT_MERGE": "cluster", "STORE": "direct", "K_STAGES": 1, "V_STAGES": 1}
    | {"COPY_TOGETHER": False},
    {"KV_SPLITS": 2, "SPLIT_MERGE": "cluster", "WARPS_KV": 1, "PRODUCER_WARPS": 1, "PARTS_APART": True, "COPY": "tma"}
    | {"COPY_TOGETHER": False, "K_STAGES": 1, "V_STAGES": 1},
)
KEYS = (
    ("B=2,H=4,KV=2,S=139,D=64,causal=true,window=9,dtype=bfloat16", {"QK_AHEAD": True, "STORE": "stmatrix"}),
    ("B=1,H=3,KV=1,S=37,S_KV=139,D=64", {"COPY": "tma", "PRODUCER_WARPS": 1, "COPY_TOGETHER": False, "WARPS_KV": 1}),
    ("B=1,H=2,KV=1,S=70,S_KV=203,D=64,causal=true,window=33", {"RESCALE": "when_grown", "ROW_SUM": "deferred"}),
    (
        "B=1,H=2,KV=2,S=130,S_KV=267,D=64,causal=true,window=70",
        {
            "KV_SPLITS": 3,
            "BLOCK_N": 32,
            "WARPS_KV": 1,
            "K_STAGES": 0,
            "V_STAGES": 0,
            "TILE_READY": "mbarrier",
            "COPY_TOGETHER": False,
        },
    ),
    (
        "B=1,H=2,KV=1,S=203,D=64,causal=true,window=40",
        {"PRODUCTS": "wgmma", "BLOCK_M": 128, "WARPS_M": 8, "WARPS_KV": 1, "PRODUCER_WARPS": 1, "COPY": "tma"}
        | {
            "COPY_TOGETHER": False,
            "PV_BEHIND": True,
            "IN_TURNS": True,
            "CLUSTER": 2,
            "BLOCK_N": 32,
            "RESCALE": "always",
        },
    ),
    (
        "B=1,H=4,KV=2,S=75,S_KV=331,D=64",
        {"PRODUCTS": "wgmma", "BLOCK_M": 64, "WARPS_M": 4, "WARPS_KV": 1, "COPY": "tma", "CTAS_PER_SM": 1}
        | {"PRODUCER_WARPS": 4, "COPY_TOGETHER": False, "Q_IN_REGISTERS": False, "SCHEDULE": "stream_k"},
    ),
)
"""Attention with query heads that share key heads, more keys than queries, and windows of different sizes."""

BOXES_OF_KEYS: dict[str, Value] = {"PRODUCTS": "wgmma", "COPY": "tma", "PRODUCER_WARPS": 1, "WARPS_KV": 1}
BOXES_OF_KEYS |= {"COPY_TOGETHER": False, "BLOCK_M": 64, "WARPS_M": 4, "Q_IN_REGISTERS": False}
ALL_KEYS: dict[str, Value] = {"K_STAGES": 0, "V_STAGES": 0, "COPY_TOGETHER": False}
SHARED: Config = {"KV_SPLITS": 2, "SPLIT_MERGE": "cluster", "K_STAGES": 1, "V_STAGES": 1, "COPY_TOGETHER": False}
LAYOUTS: tuple[tuple[str, Config], ...] = (
    ("B=2,H=4,KV=2,S=75,S_KV=139,D=64,layout=bshd", {"STORE": "direct"}),
    ("B=2,H=4,KV=2,S=75,D=64,layout=bshd,causal=true,dtype=bfloat16", {**BOXES_OF_KEYS, **ALL_KEYS}),
    ("B=2,H=4,KV=2,S=75,D=64,layout=qkv,causal=true", {**ALL_KEYS, "PRODUCER_WARPS": 1, "PARTS_APART": True}),
    (
        "B=2,H=2,KV=1,S=139,D=64,layout=qkv",
        {**BOXES_OF_KEYS, "BLOCK_M": 128, "WARPS_M": 8, "Q_STAGES": 2, "CTAS_PER_SM": 1},
    ),
    ("B=2,H=3,S=75,D=64,layout=qkv_heads,lse=true", {**ALL_KEYS, "STORE": "stmatrix", "MERGE": "spread"}),
    ("B=2,H=2,S=139,D=64,layout=qkv_heads", {**BOXES_OF_KEYS, "CLUSTER": 2}),
    (
        "B=3,H=2,S=139,D=64,lengths=ragged",
        {**ALL_KEYS, "KV_SPLITS": 3, "WARPS_KV": 1, "RESCALE": "always", "ROW_SUM": "deferred"},
    ),
    ("B=3,H=2,S=139,D=64,lengths=ragged,causal=true,lse=true", {"QK_AHEAD": True}),
    (
        "B=3,H=2,S=203,D=64,lengths=ragged,layout=bshd,lse=true",
        {**BOXES_OF_KEYS, "BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 32, "PV_BEHIND": True, "IN_TURNS": True},
    ),
    ("B=5,H=2,S=139,D=64,lengths=packed,tokens=300,layout=bshd,lse=true", {}),
    (
        "B=4,H=4,KV=2,S=75,D=64,lengths=packed,tokens=130,layout=qkv,causal=true,window=20,dtype=bfloat16",
        {**BOXES_OF_KEYS, **ALL_KEYS},
    ),
    (
        "B=3,H=2,S=203,D=64,lengths=packed,tokens=431,layout=qkv_heads,lse=true",
        {**ALL_KEYS, "KV_SPLITS": 2, "WARPS_KV": 1, "RESCALE": "always"},
    ),
    (
        "B=3,H=4,KV=2,S=139,D=64,lengths=packed,tokens=203,layout=bshd",
        {**BOXES_OF_KEYS, "BLOCK_M": 128, "WARPS_M": 8, "Q_STAGES": 2, "CTAS_PER_SM": 1},
    ),
    (
        "B=3,H=2,S=203,D=64,lengths=packed,tokens=300,layout=bshd,causal=true",
        {"COPY_TOGETHER": False, "PRODUCER_WARPS": 1, "PARTS_APART": True, "CTAS_PER_SM": 1},
    ),
    (
        "B=3,H=2,S=203,D=64,lengths=packed,tokens=300,layout=bshd",
        {**BOXES_OF_KEYS, "BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 32, "PV_BEHIND": True, "IN_TURNS": True},
    ),
    ("B=3,H=2,S=203,D=64,lengths=packed,tokens=300,layout=bshd", SHARED),
    ("B=1,H=3,S=139,D=64,lse=true", {**ALL_KEYS, "KV_SPLITS": 3, "WARPS_KV": 1, "RESCALE": "always", "BLOCK_N": 48}),
)
"""Attention in these layouts: the heads of a token are adjacent; one tensor contains q, k and v; each sequence has its
own number of keys; sequences are packed, and some of them are empty; lse is a second output."""

FP8 = (
    (
        "B=1,H=2,S=192,D=32",
        {"KV_SPLITS": 2, "WARPS_KV": 1, "BLOCK_M": 32, "WARPS_M": 2, "BLOCK_N": 32, "STORE": "staged", "K_STAGES": 2}
        | {"V_STAGES": 2, "PV": "half", "ACCUMULATE": "chained", "COPY_TOGETHER": False, "MERGE": "one"},
    ),
    ("B=1,H=1,S=139,D=32,causal=true", {"WARPS_KV": 1, "STORE": "staged", "K_STAGES": 2, "V_STAGES": 2}),
    ("B=1,H=2,S=7,D=32", {"BLOCK_N": 32, "WARPS_KV": 1, "RESCALE": "always", "ROW_SUM": "deferred"}),
    ("B=1,H=1,S=75,D=32,accuracy=fine", {"PV": "half", "ACCUMULATE": "chained", "MERGE": "spread"}),
    ("B=1,H=1,S=144,D=32,v_layout=columns", {"PV": "split", "TILE_READY": "mbarrier", "LAYOUT": "pad"}),
    (
        "B=1,H=1,S=208,D=128,v_layout=columns,causal=true",
        {"PRODUCTS": "wgmma", "BLOCK_M": 128, "WARPS_M": 8, "WARPS_KV": 1, "BLOCK_N": 64, "K_STAGES": 2, "V_STAGES": 1}
        | {"PV_BEHIND": True, "IN_TURNS": True, "PRODUCER_WARPS": 4, "PRODUCER_REGISTERS": 56, "POLYNOMIALS": 1}
        | {"ACCUMULATE": "flushed", "Q_IN_REGISTERS": False, "ROW_SUM": "deferred"},
    ),
    (
        "B=1,H=1,S=144,D=64,v_layout=columns",
        {"PRODUCTS": "wgmma", "BLOCK_M": 64, "WARPS_M": 4, "BLOCK_N": 128, "PV": "split", "ACCUMULATE": "chained"}
        | {"Q_IN_REGISTERS": False, "ROW_SUM": "each_tile", "STORE": "staged", "MERGE": "spread"},
    ),
)
SHARED_KEYS = {"BLOCK_M": 32, "WARPS_M": 2, "WARPS_KV": 2, "UNROLL": 1, "COPY_TOGETHER": False}
SHARED_KEYS |= {"K_STAGES": 0, "V_STAGES": 0, "BLOCK_N": 64}
WARPGROUPS = (
    (
        "B=1,H=2,S=139,D=128,causal=true",
        {"BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 48, "PRODUCER_WARPS": 4, "COPY_TOGETHER": False, "QK_AHEAD": True}
        | {"PRODUCER_REGISTERS": 40, "Q_IN_REGISTERS": False, "STORE": "stmatrix", "COPY": "tma"},
    ),
    (
        "B=1,H=1,S=331,D=64,dtype=bfloat16",
        {"BLOCK_M": 64, "WARPS_M": 4, "WARPS_KV": 2, "BLOCK_N": 96, "MERGE": "spread", "POLYNOMIALS": 2}
        | {"K_STAGES": 0, "V_STAGES": 0, "TILE_READY": "mbarrier", "COPY_TOGETHER": False, "PV_BEHIND": True},
    ),
    (
        "B=1,H=1,S=267,D=64,causal=true",
        {"BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 64, "PRODUCER_WARPS": 1, "COPY_TOGETHER": False, "COPY": "tma"}
        | {"PV_BEHIND": True, "IN_TURNS": True, "CLUSTER": 2, "UNROLL": 1},
    ),
    (
        "B=1,H=1,S=267,D=64",
        {"BLOCK_M": 64, "WARPS_M": 4, "BLOCK_N": 48, "PRODUCER_WARPS": 1, "COPY_TOGETHER": False, "COPY": "tma"}
        | {"PV_BEHIND": True, "KV_SPLITS": 2, "SPLIT_MERGE": "cluster", "PARTS_APART": True, "STORE": "stmatrix"},
    ),
)
AHEAD = {"PRODUCTS": "wgmma", "BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 64, "COPY": "tma", "CTAS_PER_SM": 1}
AHEAD |= {"PRODUCER_WARPS": 4, "PRODUCER_REGISTERS": 24, "COPY_TOGETHER": False, "Q_IN_REGISTERS": False}
AHEAD |= {"Q_STAGES": 2, "PV_BEHIND": True, "IN_TURNS": True, "STORE": "stmatrix", "UNROLL": 1}
HEAD_SIZES = (
    ("D=96", {"PRODUCTS": "wgmma", "COPY": "tma", "PRODUCER_WARPS": 1, "Q_IN_REGISTERS": False}),
    ("D=96,causal=true", {"PRODUCTS": "wgmma", "COPY": "tma", "PRODUCER_WARPS": 1, "PANEL": 32, "STORE": "stmatrix"}),
    ("D=80", {"PRODUCTS": "wgmma", "PANEL": 16, "STORE": "direct"}),
    ("D=72", {"PRODUCTS": "wgmma", "COPY": "tma", "PRODUCER_WARPS": 1, "PANEL": 16, "STORE": "staged"}),
    ("D=192", {"PRODUCTS": "wgmma", "COPY": "tma", "PRODUCER_WARPS": 1, "BLOCK_N": 32, "Q_IN_REGISTERS": False}),
    (
        "D=256,causal=true,KV=1",
        {
            "PRODUCTS": "wgmma",
            "COPY": "tma",
            "BLOCK_M": 128,
            "WARPS_M": 8,
            "PRODUCER_WARPS": 4,
            "PRODUCER_REGISTERS": 24,
        }
        | {"BLOCK_N": 32, "PV_BEHIND": True, "IN_TURNS": True, "Q_IN_REGISTERS": False, "STORE": "stmatrix"},
    ),
    ("D=88", {"LAYOUT": "pad", "STORE": "direct"}),
    ("D=72", {"STORE": "stmatrix", "Q_IN_REGISTERS": False}),
    ("D=96", {"COPY": "tma", "PRODUCER_WARPS": 1, "PANEL": 32}),
)
"""Attention with head sizes that do not fill the TMA unit's panels, need narrower panels, or are padded."""

BY_TURNS = (
    ("B=1,H=13,S=331,D=64,causal=true", {**AHEAD, "HEADS_TOGETHER": 4}),
    ("B=1,H=7,S=331,D=64", {**AHEAD, "SCHEDULE": "stream_k"}),
    ("B=1,H=3,S=331,D=64", {**AHEAD, "SCHEDULE": "stream_k", "STORE": "staged", "ROW_SUM": "deferred"}),
    (
        "B=1,H=7,S=203,D=64",
        {"BLOCK_M": 32, "WARPS_M": 2, "WARPS_KV": 2, "BLOCK_N": 64, "CTAS_PER_SM": 2, "SCHEDULE": "stream_k"},
    ),
    ("B=1,H=5,S=203,D=64", {"BLOCK_N": 32, "CTAS_PER_SM": 2, "COPY_TOGETHER": False, "SCHEDULE": "stream_k"}),
)
"""Attention whose blocks process, in this order: several items with prefetched rows of q; whole items and then equal
parts of the remaining items; only parts; one item, because there are more blocks than tiles; parts of unequal size."""

QUANTISE = (
    ("B=1,H=2,S=37,D=24", {"THREADS": 64, "SPLIT": 3, "CODES": 4, "UNROLL": 2, "LOADS": "once"}),
    ("B=1,H=2,S=80,D=24,layout=columns", {"THREADS": 64, "SPLIT": 2, "TILE_ROWS": 64, "UNROLL": 1}),
)

ROWS = {"VECTOR": 4, "THREADS_PER_ROW": 64, "ROWS_PER_BLOCK": 4, "CTAS_PER_SM": 1}
TILES = {"TILE_ROWS": 32, "TILE_COLUMNS": 32, "THREADS": 64}
DECODE: Config = {"PRODUCTS": "mma", "ROWS": 8, "COPY": "registers", "WARPS": 4, "SPLITS": 3, "CTAS_PER_SM": 0}
EVENLY = {"WARPS": 1, "SPLITS": 1, "CTAS_PER_SM": 1}
"""Tunables with which there are fewer blocks than tiles. Some blocks process two tiles of different heads."""
MEMORY_BOUND = (
    ("sdpa_decode", "B=1,H=12,KV=12,S=211,D=64", {**DECODE, **EVENLY, "COPY": "async", "STAGES": 3}),
    ("sdpa_decode", "B=1,H=18,KV=2,S=147,D=64", {**DECODE, "WARPS": 2, "STAGES": 2, "MERGE": "cluster"}),
    ("sdpa_decode", "B=1,H=6,KV=2,S=147,D=64,dtype=bfloat16", {**DECODE, "WARPS": 2}),
    ("sdpa_decode", "B=1,H=3,KV=1,S=147,D=64,dtype=bfloat16", {**DECODE, "PRODUCTS": "fma", "ROWS": 2, "WARPS": 2}),
    ("sdpa_decode", "B=1,H=3,KV=1,S=147,D=128", {**DECODE, "PRODUCTS": "fma", "ROWS": 2, "WARPS": 2}),
    ("sdpa_decode", "B=1,H=4,KV=2,S=129,Q=5,D=64,causal=true", {**DECODE, "COPY": "async"}),
    ("sdpa_decode", "B=3,H=6,KV=2,S=147,D=64,page=16", {**DECODE, "WARPS": 2}),
    (
        "sdpa_decode",
        "B=2,H=6,KV=2,S=147,D=128,page=48,dtype=bfloat16",
        {**DECODE, "COPY": "async", "KEY_TILES": 2, "WARPS": 2},
    ),
    ("sdpa_decode", "B=2,H=4,KV=2,S=130,Q=2,D=64,layout=bshd,causal=true", {**DECODE, "COPY": "async"}),
    ("sdpa_decode", "B=4,H=4,KV=2,S=211,D=64,lengths=ragged", {**DECODE, **EVENLY, "COPY": "async", "STAGES": 3}),
    ("sdpa_decode", "B=4,H=6,KV=2,S=147,D=64,page=16,lengths=ragged,dtype=bfloat16", {**DECODE, "WARPS": 2}),
    (
        "sdpa_decode",
        "B=3,H=4,KV=2,S=147,Q=2,D=64,lengths=ragged,causal=true",
        {**DECODE, "WARPS": 2, "MERGE": "cluster"},
    ),
    ("sdpa_decode", "B=3,H=2,KV=1,S=129,D=64,lengths=ragged", {**DECODE, "PRODUCTS": "fma", "ROWS": 2}),
    ("sdpa_decode", "B=1,H=1,KV=1,S=129,Q=3,D=64,causal=true", {**DECODE, "PRODUCTS": "fma", "ROWS": 2}),
    ("layernorm", "rows=1070,cols=84", {**ROWS, "AHEAD": True, "KEEP_WEIGHTS": True, "STATISTICS": "two_pass"}),
    ("reduce", "rows=140,cols=1024", {**ROWS, "SPLIT": 4, "UNROLL": 1}),
    ("transpose", "rows=328,cols=492", {**TILES, "COPY": "async", "STAGES": 2, "CTAS_PER_SM": 1, "GROUP": 4}),
)
"""Memory-bound kernels in which some blocks process a second group of rows, the last block exceeds the matrix, and some
threads have no work. The last block of a head has a single key, which most causal queries ignore."""

ODD_ROWS = (
    ("softmax", "rows=6,cols=1037", {**ROWS, "VECTOR": 8, "KEEP": "packed", "ROWS_PER_BLOCK": 1, "CLUSTER": 2}),
    ("softmax", "rows=5,cols=77,dtype=bfloat16", {**ROWS, "VECTOR": 8, "THREADS_PER_ROW": 8, "KEEP": "shared"}),
    ("softmax", "rows=3,cols=2051,dtype=float32", {**ROWS, "ROWS_PER_BLOCK": 1, "CLUSTER": 4, "KEEP": "shared"}),
    ("rmsnorm", "rows=5,cols=1037,dtype=bfloat16", {**ROWS, "VECTOR": 8, "THREADS_PER_ROW": 32, "KEEP": "reload"}),
    ("rmsnorm", "rows=7,cols=1037", {**ROWS, "AHEAD": True, "ROWS_PER_BLOCK": 1, "CLUSTER": 2}),
    ("layernorm", "rows=7,cols=1037", {**ROWS, "VECTOR": 8, "ROWS_PER_BLOCK": 1, "CLUSTER": 2, "KEEP": "shared"}),
    ("rmsnorm", "rows=7,cols=1037,residual=true", {**ROWS, "AHEAD": True, "ROWS_PER_BLOCK": 1}),
    ("rmsnorm", "rows=5,cols=136,residual=true,dtype=bfloat16", {**ROWS, "THREADS_PER_ROW": 32, "KEEP": "reload"}),
    ("layernorm", "rows=37,cols=91,dtype=bfloat16", {**ROWS, "VECTOR": 8, "THREADS_PER_ROW": 16}),
    ("layernorm", "rows=7,cols=1037,residual=false", {**ROWS, "AHEAD": True, "ROWS_PER_BLOCK": 1}),
    ("layernorm", "rows=5,cols=1037,residual=false", {**ROWS, "VECTOR": 8, "KEEP": "reload"}),
    ("swiglu", "rows=5,cols=1037", {"VECTOR": 8, "THREADS": 64, "UNROLL": 2, "CTAS_PER_SM": 1}),
    ("swiglu", "rows=3,cols=77,dtype=bfloat16", {"VECTOR": 4, "THREADS": 64, "UNROLL": 1}),
    ("swiglu", "rows=2,cols=129,dtype=float32", {"VECTOR": 4, "THREADS": 64, "UNROLL": 1}),
    ("rope", "B=2,S=13,H=6,KV=2,D=64,dtype=bfloat16", {"VECTOR": 8, "THREADS": 64, "UNROLL": 5}),
    ("rope", "B=2,S=13,H=3,D=38,layout=bhsd", {"VECTOR": 1, "THREADS": 64, "UNROLL": 2, "CTAS_PER_SM": 1}),
    ("cross_entropy", "rows=5,cols=1037,dtype=bfloat16", {**ROWS, "VECTOR": 8, "UNROLL": 2}),
    ("cross_entropy", "rows=37,cols=91,dtype=float32", {**ROWS, "THREADS_PER_ROW": 16, "UNROLL": 1}),
    ("cross_entropy", "rows=5,cols=2051", {**ROWS, "VECTOR": 8, "ROWS_PER_BLOCK": 1, "CLUSTER": 2, "UNROLL": 2}),
    ("reduce", "rows=5,cols=1037,dtype=bfloat16", {**ROWS, "VECTOR": 8, "UNROLL": 2}),
    ("transpose", "rows=328,cols=492,dtype=bfloat16", {**TILES, "COPY": "async"}),
)
"""Rows of odd length in each dtype. Many do not start at a multiple of the vector size. Clusters share some rows."""

PRODUCT = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "WARPS_M": 2, "WARPS_N": 1, "GROUP_M": 2}
PRODUCT |= {"STAGES": 2, "FRAGMENTS_AHEAD": False}
WARPGROUP = {"PRODUCTS": "wgmma", "STAGES": 3, "WARPS_M": 4, "BLOCK_K": 64}
BOXES = {"COPY": "tma", "BLOCK_M": 64, "BLOCK_N": 64, "CLUSTER": 2, "CTAS_PER_SM": 1}
FEW_ROWS = {"COPY": "tma", "BLOCK_M": 64, "BLOCK_N": 64, "GROUP_M": 1}
BYTES = {"PRODUCTS": "wgmma", "STAGES": 3, "WARPS_M": 8, "BLOCK_M": 128, "BLOCK_K": 128}
PRODUCTS = (
    ("gemm", "M=75,N=72,K=200,dtype=bfloat16,epilogue=bias_gelu", {"BLOCK_K": 64, "WARPS_K": 2, "SPLIT_K": 2}),
    (
        "gemm",
        "M=1,N=72,K=200,epilogue=bias_silu,residual=true",
        {"BLOCK_M": 16, "WARPS_M": 1, "GROUP_M": 1, "SPLIT_K": 2},
    ),
    (
        "gemm",
        "M=75,N=72,K=328,residual=true",
        {**WARPGROUP, "BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 2, "MERGE": "cluster"},
    ),
    ("gemm", "M=150,N=136,K=200,epilogue=bias_gelu_tanh,dtype=bfloat16", {**WARPGROUP, "BLOCK_M": 128, "BLOCK_N": 64}),
    ("gemm", "M=150,N=136,K=328", {**WARPGROUP, "BLOCK_M": 128, "BLOCK_N": 128, "WARPS_N": 2}),
    ("gemm", "M=150,N=264,K=328", {**WARPGROUP, **BOXES}),
    (
        "gemm",
        "M=75,N=72,K=328,epilogue=bias",
        {**WARPGROUP, "BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 2, "STAGES": 3} | {"MERGE": "cluster"},
    ),
    (
        "gemm",
        "M=75,N=71,K=77,epilogue=bias_gelu,residual=true,dtype=bfloat16",
        {"BLOCK_K": 64, "WARPS_K": 2, "SPLIT_K": 2},
    ),
    ("gemm", "M=37,N=70,K=77,b_layout=nk,residual=true", {"STORE": "stmatrix"}),
    (
        "gemm",
        "M=75,N=71,K=328,epilogue=bias,residual=true",
        {**WARPGROUP, "BLOCK_M": 64, "BLOCK_N": 64, "SPLIT_K": 2, "MERGE": "cluster"},
    ),
    ("gemm", "M=150,N=263,K=328,b_layout=nk", {**WARPGROUP, **BOXES}),
    (
        "gemm",
        "M=75,N=72,K=200,batch=3,epilogue=bias,residual=true,a_stride=216,b_stride=88",
        {"BLOCK_K": 64, "WARPS_K": 2, "SPLIT_K": 2},
    ),
    (
        "gemm",
        "M=37,N=71,K=77,batch=2,b_layout=nk,b_stride=79,dtype=bfloat16",
        {"STORE": "direct", "CTAS_PER_SM": 1, "SCHEDULE": "stream_k"},
    ),
    ("gemm", "M=150,N=264,K=320,batch=2,a_stride=336", {**WARPGROUP, **BOXES}),
    (
        "gemm",
        "M=5,N=136,K=328,b_layout=nk,dtype=bfloat16",
        {**WARPGROUP, **FEW_ROWS, "SPLIT_K": 2, "MERGE": "cluster"},
    ),
    (
        "gemm",
        "M=32,N=136,K=328,b_layout=nk,epilogue=bias",
        {**WARPGROUP, **FEW_ROWS, "CTAS_PER_SM": 1, "SCHEDULE": "stream_k"},
    ),
    ("gemm_fp8", "M=75,N=72,K=208,scaling=row,out=float16", {"SCHEDULE": "stream_k", "CTAS_PER_SM": 2, "PROMOTE": 2}),
    ("gemm_fp8", "M=150,N=136,K=464,scaling=row,epilogue=bias,out=float16", {**BYTES, "BLOCK_N": 64, "PROMOTE": 2}),
    (
        "gemm_fp8",
        "M=150,N=264,K=464,scaling=row,out=float16",
        {**BYTES, "COPY": "tma", "BLOCK_N": 256, "CLUSTER": 2, "CTAS_PER_SM": 1, "PROMOTE": 1, "PRODUCER_REGISTERS": 24}
        | {"STORE": "direct"},
    ),
)
LIMITS = {"float16": TOLERANCE, "bfloat16": 8e-3}
FEW = replace(DEVICE, limits={**DEVICE.limits, "sm_count": 12.0})
"""A device with few multiprocessors, so that blocks process several tiles or parts of tiles."""


@cache
def reference(package: Package) -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", package.path / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def errors(kernel: HostKernel, package: Package, problem: Problem, drawn: str = "peaked") -> list[float]:
    """Return the relative L2 error of the output for each execution order of the threads in `ORDERS`."""
    inputs = reference(package).inputs(problem, drawn, np.random.default_rng(5))
    exact = reference(package).reference(problem, inputs)
    return [error(kernel(inputs, order=order, eager=eager), exact) for order, eager in ORDERS]


def declared(package: Package) -> Config:
    """Return the default config, without building the space."""
    return {each.name: each.values[each.default_index] for each in package.family.implementation("cuda").tunables}


def ladder_config(name: str) -> Config:
    return next(step.config for step in steps(find("sdpa_ladder")) if step.name == name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), one_in(9, LADDER))
def test_sdpa_ladder_step_is_correct_on_the_host(name: str, text: str) -> None:
    package = find("sdpa_ladder")
    problem = package.family.problem(text, "cuda")
    kernel = build(package, ladder_config(name), problem, DEVICE)
    assert max(errors(kernel, package, problem)) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change"), one_in(9, KEYS), ids=[text for text, _ in KEYS])
@pytest.mark.parametrize("drawn", one_in(2, ["normal", "peaked"]))
def test_cross_attention_is_correct_on_the_host(text: str, change: Config, drawn: str) -> None:
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    assert max(errors(kernel, package, problem, drawn)) < LIMITS[str(problem["dtype"])]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change"), one_in(18, LAYOUTS))
def test_attention_in_every_tensor_layout_is_correct_on_the_host(text: str, change: Config) -> None:
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    assert max(errors(kernel, package, problem, "normal")) < LIMITS[str(problem["dtype"])]


SCORES: tuple[tuple[str, Config], ...] = (
    ("B=1,H=3,S=139,D=64,softcap=20", {}),
    ("B=1,H=2,KV=1,S=75,S_KV=139,D=64,alibi=true,dtype=bfloat16", {"QK_AHEAD": True, "STORE": "stmatrix"}),
    (
        "B=3,H=2,S=139,D=64,lengths=ragged,causal=true,alibi=true,softcap=50,lse=true",
        {**ALL_KEYS, "KV_SPLITS": 3, "WARPS_KV": 1, "RESCALE": "always", "BLOCK_N": 48},
    ),
    (
        "B=2,H=3,S=203,D=64,causal=true,window=40,alibi=true,softcap=30",
        {**BOXES_OF_KEYS, "BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 32, "PV_BEHIND": True, "IN_TURNS": True},
    ),
    ("B=2,H=2,S=139,D=64,layout=qkv_heads,alibi=true", {**BOXES_OF_KEYS, "CLUSTER": 2}),
    (
        "B=4,H=4,KV=2,S=75,D=64,lengths=packed,tokens=130,layout=qkv,causal=true,alibi=true,softcap=5,dtype=bfloat16",
        {**BOXES_OF_KEYS, **ALL_KEYS},
    ),
)
"""Attention with capped scores, and with scores that decrease with the distance from query to key (ALiBi)."""


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change"), one_in(9, SCORES))
@pytest.mark.parametrize("drawn", one_in(2, ["normal", "large"]))
def test_attention_with_capped_or_biased_scores_is_correct_on_the_host(text: str, change: Config, drawn: str) -> None:
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    assert max(errors(kernel, package, problem, drawn)) < LIMITS[str(problem["dtype"])]


SCORE_TWINS = (
    ("softcap=50", "large", '{{ "capped(x)" if softcap else "x * SCORE_SCALE" }}', "x * 0.25503f"),
    ("alibi=true", "normal", "x = fmaf(-slope,", "x = fmaf(-0.f,"),
    ("alibi=true", "normal", "slopes[item.head % HEADS_PER_ENTRY]", "slopes[0]"),
    ("alibi=true", "normal", "static_cast<float>(row + LATER - key);", "static_cast<float>(row - key);"),
    ("alibi=true", "normal", "fabsf(distance", "(distance"),
    ("alibi=true,softcap=5", "large", "x = fmaf(-slope,", "x = fmaf(-slope / 1.4426950408889634f,"),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("terms", "drawn", "text", "instead"),
    one_in(9, SCORE_TWINS),
    ids=["no cap", "no slope", "one slope for all heads", "aligned at the first key", "signed distance", "wrong base"],
)
def test_faults_in_score_cap_or_bias_exceed_the_tolerance(terms: str, drawn: str, text: str, instead: str) -> None:
    package = find("sdpa")
    [file] = [name for name, content in package.files.items() if name.endswith(".j2") and text.encode() in content]
    broken = replace(
        package, files={**package.files, file: package.files[file].decode().replace(text, instead).encode()}
    )
    problem = package.family.problem(f"B=1,H=2,S=40,S_KV=75,D=32,{terms}", "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, "BLOCK_N": 32}
    inputs = reference(package).inputs(problem, drawn, np.random.default_rng(5))
    exact = reference(package).reference(problem, inputs)
    assert error(build(package, config, problem, DEVICE)(inputs), exact) < TOLERANCE
    assert error(build(broken, config, problem, DEVICE)(inputs), exact) > 2 * TOLERANCE


def test_attention_source_omits_code_for_unused_score_cap_and_bias() -> None:
    """Without this code, the kernel needs no register for a cap or a slope."""
    package = find("sdpa")
    for text in ("D=64", "D=64,causal=true"):
        problem = package.family.problem(text, "cuda")
        candidate = package.family.candidate(declared(package), problem, DEVICE, Objective())
        source = render(package, "cuda", declared(package), problem, candidate.derived)
        assert not {"slope", "adjust", "CAP"} & set(re.findall(r"\w+", source))


DECODE_TWINS = (
    ("return keys - (QUERIES - 1) + row % QUERIES;", "return keys + 1 - (QUERIES - 1) + row % QUERIES;"),
    ("lengths[stretch.head / KV_HEADS]", "lengths[0]"),
    ("lengths[stretch.head / KV_HEADS]", "S"),
)


@pytest.mark.long
@pytest.mark.parametrize("page", one_in(2, [16, 0]))
def test_decode_kernels_that_read_beyond_the_keys_exceed_the_tolerance(page: int) -> None:
    package = find("sdpa_decode")
    problem = package.family.problem(f"B=3,H=4,KV=2,S=147,D=64,page={page},lengths=ragged", "cuda")
    config = {**package.family.space(problem, DEVICE, Objective()).default(), **DECODE, "WARPS": 2}
    inputs = reference(package).inputs(problem, "normal", np.random.default_rng(5))
    exact = reference(package).reference(problem, inputs)
    sound = package.files["kernel.cu.j2"].decode()
    assert error(build(package, config, problem, DEVICE)(inputs), exact) < TOLERANCE
    for text, instead in DECODE_TWINS:
        assert sound.count(text) == 1
        broken = replace(package, files={**package.files, "kernel.cu.j2": sound.replace(text, instead).encode()})
        assert error(build(broken, config, problem, DEVICE)(inputs), exact) > 10 * TOLERANCE


PACKED_TWINS = (
    ("item.token = PACKED ? lengths[entry] : 0;", "item.token = 0;"),
    ("lengths[entry + 1] - item.token :", "lengths[entry + 1] - item.token + 1 :"),
    ("q_start(item.head, item.token), first_row", "q_start(item.head, 0), first_row"),
)


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "instead"),
    one_in(9, PACKED_TWINS),
    ids=["start of keys ignored", "key of the next sequence", "start of queries ignored"],
)
def test_faults_in_attention_over_packed_sequences_exceed_the_tolerance(text: str, instead: str) -> None:
    package, file = find("sdpa"), "include/attention/walk.cuh.j2"
    sound = package.files[file].decode()
    assert sound.count(text) == 1
    broken = replace(package, files={**package.files, file: sound.replace(text, instead).encode()})
    problem = package.family.problem("B=3,H=2,S=75,D=32,lengths=packed,tokens=130,layout=bshd", "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, "BLOCK_N": 32}
    kernel = build(broken, config, problem, DEVICE)
    inputs = reference(package).inputs(problem, "normal", np.random.default_rng(5))
    try:
        made = error(kernel(inputs), reference(package).reference(problem, inputs))
    except AssertionError:
        return
    assert not made < 10 * TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    one_in(6, DIFFERENTLY),
    ids=["qk ahead", "producer warp", "split keys", "tma", "cluster", "cluster with tma"],
)
def test_attention_with_each_copy_and_split_option_is_correct_on_the_host(change: Config) -> None:
    package = find("sdpa")
    length = 139 + 64 * (change.get("KV_SPLITS") == 2)  # each block of a cluster has the same number of tiles
    problem = package.family.problem(f"B=1,H=1,S={length},D=64,causal=true", "cuda")
    config = {**declared(package), **SDPA, "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    assert max(errors(kernel, package, problem)) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    one_in(2, [{}, {"WARPS_KV": 1, "PARTS_APART": True}]),
    ids=["split by warps and blocks", "split by blocks"],
)
@pytest.mark.parametrize("order", one_in(3, range(5)))
def test_cluster_attention_is_correct_in_every_execution_order(change: Config, order: int) -> None:
    """Every block has keys, because the attention is not causal. Adding a block's part twice is therefore wrong."""
    package = find("sdpa")
    problem = package.family.problem("B=1,H=1,S=203,D=64", "cuda")
    config = {**declared(package), **SDPA, **SHARED, "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    inputs = reference(package).inputs(problem, "normal", np.random.default_rng(5))
    exact = reference(package).reference(problem, inputs)
    assert error(kernel(inputs, order=order), exact) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change"), one_in(2, QUANTISE))
def test_e4m3_quantisation_rounds_to_the_nearest_codes(text: str, change: Config) -> None:
    package = find("quantize_e4m3")
    problem, device = package.family.problem(text, "cuda"), known("sm_89")
    config = {**package.family.space(problem, device, Objective()).default(), **change}
    assert not package.family.violations(config, problem, device, Objective())
    kernel = build(package, config, problem, device)
    for drawn in ("normal", "outlier", "outlier-8000", "outlier-1000", "zeros"):
        inputs = reference(package).inputs(problem, drawn, np.random.default_rng(5))
        inputs["x"][:, :, ::7] = 0
        exact = reference(package).reference(problem, inputs)
        naive = reference(package).yardstick(problem, inputs)["codes"]
        made = kernel(inputs)
        assert np.abs(made["codes"] - exact["codes"]).max() <= 1.001 * np.abs(naive - exact["codes"]).max()
        assert made["scale"] == pytest.approx(exact["scale"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change"), one_in(18, FP8))
def test_e4m3_attention_is_correct_on_the_host(text: str, change: Config) -> None:
    """The test also shows that a wrong key, column or byte exceeds the family's tolerance."""
    package = find("sdpa_fp8")
    device = known("sm_90" if change.get("PRODUCTS") == "wgmma" else "sm_89")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **SHARED_KEYS, **change}
    assert not package.family.violations(config, problem, device, Objective())
    kernel = build(package, config, problem, device)
    [tolerance] = [each.tolerance for each in package.family.operands(problem) if each.tolerance]
    for drawn in ("normal", "zeros"):
        inputs = reference(package).inputs(problem, drawn, np.random.default_rng(5))
        exact = reference(package).reference(problem, inputs)
        worst = np.abs(reference(package).yardstick(problem, inputs)["out"] - exact["out"]).max()
        for order, eager in ORDERS:
            made = kernel(inputs, order=order, eager=eager)
            assert error(made, exact) < tolerance.rel_l2
            assert np.abs(made["out"] - exact["out"]).max() < 2 * worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "change"), one_in(4, WARPGROUPS), ids=["tma", "no producer warp", "alternating warpgroups", "cluster"]
)
def test_warpgroup_attention_is_correct_on_the_host(text: str, change: Config) -> None:
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **change, "PRODUCTS": "wgmma"}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    [tolerance] = [each.tolerance for each in package.family.operands(problem) if each.tolerance]
    assert max(errors(kernel, package, problem, "normal")) < tolerance.rel_l2


@pytest.mark.slow
@pytest.mark.parametrize(("text", "change"), one_in(9, HEAD_SIZES))
def test_attention_with_head_sizes_from_72_to_256_is_correct_on_the_host(text: str, change: Config) -> None:
    package = find("sdpa")
    problem = package.family.problem(f"B=1,H=2,S=75,{text}", "cuda")
    common = {
        "BLOCK_M": 64,
        "WARPS_M": 4,
        "BLOCK_N": 48,
        "K_STAGES": 1,
        "V_STAGES": 1,
        "COPY_TOGETHER": False,
        "UNROLL": 1,
    }
    config = {**declared(package), **common, **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    assert max(errors(kernel, package, problem, "normal")) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "change"), one_in(5, BY_TURNS), ids=["prefetch", "stream-k", "only shares", "few tiles", "uneven shares"]
)
def test_persistent_attention_is_correct_and_equal_in_every_execution_order(text: str, change: Config) -> None:
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **change}
    assert not package.family.violations(config, problem, FEW, Objective())
    kernel = build(package, config, problem, FEW)
    assert kernel.launch.grid[0] == FEW.limits["sm_count"] * int(change["CTAS_PER_SM"])
    inputs = reference(package).inputs(problem, "normal", np.random.default_rng(5))
    exact = reference(package).reference(problem, inputs)
    results = [kernel(inputs, order=order, eager=eager) for order, eager in ORDERS]
    assert max(error(each, exact) for each in results) < TOLERANCE
    assert len({each["out"].tobytes() for each in results}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "text", "change"),
    one_in(7, MEMORY_BOUND, of=itemgetter(0)),
    ids=[f"{each[0]}-{each[1]}" for each in MEMORY_BOUND],
)
def test_memory_bound_kernel_is_correct_on_the_host(family: str, text: str, change: Config) -> None:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    default = package.family.space(problem, DEVICE, Objective()).default()
    kernel = build(package, {**default, **change}, problem, DEVICE)
    # a dominant element would hide errors in the last keys of causal attention
    drawn = "normal" if problem.get("causal") else "peaked"
    assert max(errors(kernel, package, problem, drawn)) < {**LIMITS, "float32": 1e-5}[str(problem["dtype"])]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "text", "change"),
    one_in(9, ODD_ROWS),
    ids=[f"{each[0]}-{each[1]}" for each in ODD_ROWS],
)
def test_kernels_on_rows_of_odd_length_are_correct_on_the_host(family: str, text: str, change: Config) -> None:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **change}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    limit = {**LIMITS, "float32": 1e-5}[str(problem["dtype"])]
    for drawn in ("peaked", "offset") if family in ("softmax", "rmsnorm", "layernorm") else ("normal",):
        assert max(errors(kernel, package, problem, drawn)) < limit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "text", "change"),
    one_in(18, PRODUCTS, of=itemgetter(0)),
    ids=[
        *("split", "one row", "residual", "tanh", "warpgroups", "boxes", "cluster"),
        *("odd", "odd rows of c", "odd cluster", "odd boxes", "batch", "odd batch", "batch of boxes", "few rows"),
        *("few rows, stream-k", "stream-k", "8 bits", "8 bits with tma"),
    ],
)
def test_matrix_product_is_correct_and_equal_in_every_execution_order(family: str, text: str, change: Config) -> None:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **PRODUCT, **change}
    assert not package.family.violations(config, problem, FEW, Objective())
    kernel = build(package, config, problem, FEW)
    inputs = reference(package).inputs(problem, "unit", np.random.default_rng(5))
    exact = reference(package).reference(problem, inputs)
    results = [kernel(inputs, order=order, eager=eager) for order, eager in ORDERS]
    dtype = next(each.dtype for each in kernel.operands if each.role == "output")
    assert max(error(each, exact) for each in results) < LIMITS[dtype]
    assert len({each["c"].tobytes() for each in results}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("keep", one_in(2, ["registers", "packed", "shared", "reload"]))
@pytest.mark.parametrize("distribution", ["peaked", "offset"])
def test_softmax_of_masked_and_dominated_rows_is_correct_on_the_host(keep: str, distribution: str) -> None:
    package = find("softmax")
    problem = package.family.problem("rows=5,cols=200", "cuda")
    config = {**declared(package), "KEEP": keep, "THREADS_PER_ROW": 32, "ROWS_PER_BLOCK": 2, "VECTOR": 4}
    assert not package.family.violations(config, problem, DEVICE, Objective())
    kernel = build(package, config, problem, DEVICE)
    inputs = reference(package).inputs(problem, distribution, np.random.default_rng(5))
    assert np.isneginf(inputs["x"]).any() == (distribution == "peaked")
    assert error(kernel(inputs), reference(package).reference(problem, inputs)) < TOLERANCE


MISTAKES = (
    ("kernel.cu.j2", "__syncthreads();\n        softmax", "softmax", "wrong"),
    ("tiles.cuh.j2", "await_copies<largest(0, STAGES - 2)>();", "", "ends before its copies have ended"),
    ("sum_tensor.cuh.j2", "lane / 16 * 8));\n            mma(", "lane / 16 * 4));\n            mma(", "misaligned"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("file", "text", "instead", "symptom"), one_in(3, MISTAKES))
def test_planted_faults_in_attention_are_detected_on_the_host(file: str, text: str, instead: str, symptom: str) -> None:
    package = find("sdpa_ladder")
    sound = package.files[file].decode()
    assert text in sound
    broken = replace(package, files={**package.files, file: sound.replace(text, instead).encode()})
    problem = package.family.problem("B=1,H=1,S=70,D=64", "cuda")
    kernel = build(broken, ladder_config("sum in registers"), problem, DEVICE)
    try:
        found = "right" if max(errors(kernel, package, problem)) < TOLERANCE else "wrong"
    except AssertionError as fault:
        found = str(fault)
    assert symptom in found
