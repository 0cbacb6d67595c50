"""Sampled configs of every CUDA family are correct on every case, and their baselines run."""

from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from evo.device import Device
from evo.family import Candidate
from evo.family.problem import Problem
from evo.trial import Config, Value
from evo.trial.objective import Objective
from evo.trial.results import Sanitized
from templates.registry import Package, find
from templates.render import render
from tests.bench.steps import steps
from tests.gpu.kernels import Workbench, compiled
from tests.gpu.record import Recorder
from tests.integration.test_cuda_on_host import SDPA, declared
from tests.integration.test_order_of_shared_memory import ORDERED, RINGS
from workers.backends.cuda.device import DRIVER
from workers.backends.cuda.tools.toolkit import find_tool
from workers.build.build import call_arguments
from workers.build.cache import Cache
from workers.measure.baselines import prepare_baselines
from workers.measure.family.expected_output import ExpectedOutput
from workers.measure.family.reference import Reference
from workers.measure.verify import verify
from workers.runner.protocol import CasePlan

pytestmark = pytest.mark.gpu

SHAPES = [
    ("sdpa", "B=1,H=3,S=387,D=64"),
    ("sdpa", "B=1,H=3,S=256,D=64,causal=true"),
    ("sdpa", "B=1,H=2,S=130,D=32,causal=true"),
    ("sdpa", "B=1,H=2,S=320,D=128"),
    ("sdpa", "B=4,H=16,S=512,D=64"),
    ("sdpa", "B=1,H=2,S=331,D=72"),
    ("sdpa", "B=1,H=2,S=267,D=80,causal=true,dtype=bfloat16"),
    ("sdpa", "B=1,H=2,S=331,D=96"),
    ("sdpa", "B=1,H=2,S=203,D=48"),
    ("sdpa", "B=1,H=2,S=203,D=200"),
    ("sdpa", "B=1,H=8,KV=2,S=1000,D=128,causal=true,dtype=bfloat16"),
    ("sdpa", "B=1,H=8,KV=8,S=1024,D=128,causal=true,window=300,dtype=bfloat16"),
    ("sdpa", "B=2,H=4,S=1024,S_KV=77,D=64"),
    ("sdpa", "B=1,H=4,KV=1,S=300,S_KV=1000,D=64,causal=true"),
    ("sdpa", "B=2,H=8,KV=2,S=515,D=128,causal=true,layout=bshd,dtype=bfloat16"),
    ("sdpa", "B=2,H=4,KV=2,S=331,D=64,layout=qkv,causal=true"),
    ("sdpa", "B=2,H=4,S=331,D=80,layout=qkv_heads,lse=true"),
    ("sdpa", "B=5,H=4,S=387,D=64,lengths=ragged,layout=bshd"),
    ("sdpa", "B=5,H=4,S=387,D=128,lengths=ragged,causal=true,lse=true,dtype=bfloat16"),
    ("sdpa", "B=7,H=4,S=387,D=64,lengths=packed,tokens=1201,layout=bshd,lse=true"),
    ("sdpa", "B=7,H=4,KV=2,S=387,D=128,lengths=packed,tokens=1201,layout=qkv,causal=true,window=100,dtype=bfloat16"),
    ("sdpa", "B=2,H=8,KV=4,S=515,D=128,causal=true,window=300,softcap=50,dtype=bfloat16"),
    ("sdpa", "B=1,H=4,S=300,S_KV=515,D=64,alibi=true"),
    ("sdpa", "B=5,H=4,S=387,D=64,lengths=ragged,causal=true,alibi=true,softcap=20,lse=true"),
    ("sdpa_decode", "B=2,H=32,KV=8,S=1024,D=128"),
    ("sdpa_decode", "B=5,H=32,KV=8,S=1001,D=128,page=16,dtype=bfloat16"),
    ("sdpa_decode", "B=3,H=8,KV=2,S=515,Q=2,D=64,page=64,causal=true"),
    ("sdpa_decode", "B=3,H=8,KV=2,S=515,D=64,layout=bshd"),
    ("sdpa_decode", "B=9,H=32,KV=8,S=1001,D=128,lengths=ragged,dtype=bfloat16"),
    ("sdpa_decode", "B=5,H=8,KV=2,S=515,Q=3,D=64,page=16,causal=true,lengths=ragged"),
    ("sdpa_decode", "B=1,H=18,KV=2,S=1001,D=64"),
    ("sdpa_decode", "B=2,H=28,KV=4,S=1001,D=128,dtype=bfloat16"),
    ("sdpa_decode", "B=1,H=4,KV=4,S=130,Q=3,D=64,causal=true,dtype=bfloat16"),
    ("sdpa_decode", "B=3,H=4,KV=4,S=130,Q=5,D=128"),
    ("sdpa_decode", "B=1,H=16,KV=4,S=1029,Q=4,D=128,causal=true"),
    ("sdpa_decode", "B=1,H=2,KV=1,S=1,D=64"),
    ("quantize_e4m3", "B=1,H=3,S=387,D=64"),
    ("quantize_e4m3", "B=1,H=3,S=387,D=64,dtype=bfloat16"),
    ("quantize_e4m3", "B=2,H=3,S=272,D=128,layout=columns"),
    ("sdpa_fp8", "B=1,H=3,S=387,D=64"),
    ("sdpa_fp8", "B=1,H=2,S=272,D=128,causal=true,v_layout=columns,accuracy=fine"),
    ("sdpa_ladder", "B=1,H=3,S=203,D=64"),
    ("sdpa_ladder", "B=1,H=2,S=139,D=128,causal=true"),
    ("softmax", "rows=300,cols=4096"),
    ("softmax", "rows=37,cols=1000,dtype=float32"),
    ("softmax", "rows=5,cols=77"),
    ("softmax", "rows=40,cols=50257"),
    ("softmax", "rows=9,cols=128256,dtype=bfloat16"),
    ("softmax", "rows=70,cols=1037,dtype=float32"),
    ("rmsnorm", "rows=300,cols=4096"),
    ("rmsnorm", "rows=300,cols=5121,dtype=bfloat16"),
    ("rmsnorm", "rows=37,cols=1000,dtype=float32"),
    ("rmsnorm", "rows=5,cols=77"),
    ("rope", "B=2,S=515,H=32,KV=8,D=128,dtype=bfloat16"),
    ("rope", "B=2,S=37,H=3,D=80,layout=bhsd"),
    ("rope", "B=1,S=37,H=3,D=38,dtype=float32"),
    ("cross_entropy", "rows=300,cols=50257"),
    ("cross_entropy", "rows=37,cols=128256,dtype=bfloat16"),
    ("cross_entropy", "rows=37,cols=1001,dtype=float32"),
    ("swiglu", "rows=300,cols=4096,dtype=bfloat16"),
    ("swiglu", "rows=37,cols=1001"),
    ("swiglu", "rows=37,cols=1000,dtype=float32"),
    ("rmsnorm", "rows=300,cols=4096,residual=true,dtype=bfloat16"),
    ("rmsnorm", "rows=37,cols=1001,residual=true"),
    ("layernorm", "rows=300,cols=1024,residual=false"),
    ("layernorm", "rows=37,cols=1001,residual=false,dtype=bfloat16"),
    ("layernorm", "rows=300,cols=4096"),
    ("layernorm", "rows=37,cols=1000,dtype=float32"),
    ("layernorm", "rows=5,cols=77"),
    ("layernorm", "rows=300,cols=1023,dtype=bfloat16"),
    ("reduce", "rows=300,cols=4096"),
    ("reduce", "rows=37,cols=5121,dtype=bfloat16"),
    ("reduce", "rows=37,cols=5121,op=max,dtype=bfloat16"),
    ("reduce", "rows=1,cols=4194304"),
    ("reduce", "rows=37,cols=1000,dtype=float32,op=max"),
    ("reduce", "rows=5,cols=77"),
    ("transpose", "rows=1000,cols=4096"),
    ("transpose", "rows=136,cols=1028,dtype=float32"),
    ("transpose", "rows=136,cols=1028,dtype=bfloat16"),
    ("transpose", "rows=5,cols=77"),
    ("gemm", "M=203,N=1037,K=768,b_layout=nk,dtype=bfloat16"),
    ("gemm", "M=75,N=71,K=77,epilogue=bias_gelu,residual=true"),
    ("gemm", "M=203,N=264,K=320,batch=5,a_stride=336,b_stride=272,epilogue=bias"),
    ("gemm", "M=1000,N=1024,K=1024"),
    ("gemm", "M=16,N=4096,K=4096,b_layout=nk,epilogue=bias"),
    ("gemm_fp8", "M=1000,N=1024,K=1024"),
    ("gemm_fp8", "M=75,N=136,K=208,scaling=row,epilogue=bias_gelu,out=float16"),
    ("gemm", "M=75,N=136,K=200,dtype=bfloat16,epilogue=bias_gelu"),
    ("gemm", "M=1,N=4096,K=1024,b_layout=nk,dtype=bfloat16,epilogue=bias_silu,residual=true"),
    ("gemm", "M=75,N=136,K=200,epilogue=bias_gelu_tanh"),
    ("gemm", "M=203,N=328,K=840,residual=true"),
]
ATTENTION: list[Config] = [
    {},
    {"BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 128, "Q_IN_REGISTERS": False, "ROW_SUM": "deferred", "UNROLL": 1},
    {"BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 32, "PRODUCER_WARPS": 4, "COPY_TOGETHER": False, "QK_AHEAD": True}
    | {"PRODUCER_REGISTERS": 40, "Q_IN_REGISTERS": False, "STORE": "stmatrix"},
    {"BLOCK_M": 192, "WARPS_M": 12, "BLOCK_N": 32, "PRODUCER_WARPS": 4, "COPY_TOGETHER": False, "QK_AHEAD": False}
    | {"PRODUCER_REGISTERS": 40, "Q_IN_REGISTERS": False, "CTAS_PER_SM": 1},
    {"BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 64, "PRODUCER_WARPS": 4, "COPY_TOGETHER": False, "QK_AHEAD": True}
    | {"PRODUCER_REGISTERS": 24, "Q_IN_REGISTERS": False, "COPY": "tma"},
    {"BLOCK_N": 80, "PRODUCER_WARPS": 1, "COPY_TOGETHER": False, "CTAS_PER_SM": 2, "COPY": "tma"},
    {"BLOCK_N": 96, "WARPS_KV": 2, "MERGE": "spread", "COPY_TOGETHER": False, "POLYNOMIALS": 1},
    {"BLOCK_N": 128, "WARPS_KV": 2, "PARTS_APART": True, "PRODUCER_WARPS": 1, "COPY_TOGETHER": False}
    | {"Q_IN_REGISTERS": False, "POLYNOMIALS": 3, "UNROLL": 1, "COPY": "tma"},
]
OF_A_CLUSTER: dict[str, Value] = {"SPLIT_MERGE": "cluster", "COPY_TOGETHER": False, "Q_IN_REGISTERS": False}
OF_A_CLUSTER |= {"K_STAGES": 0, "V_STAGES": 0, "ROW_SUM": "deferred", "RESCALE": "always", "UNROLL": 1}
BY_BOXES = {**OF_A_CLUSTER, "COPY": "tma", "PRODUCER_WARPS": 1, "PARTS_APART": True, "STORE": "stmatrix"}
SHARED_KEYS: list[tuple[str, Config]] = [
    ("B=1,H=3,S=387,D=64", {**BY_BOXES, "KV_SPLITS": 2, "BLOCK_N": 128, "PV_BEHIND": True}),
    ("B=1,H=3,S=387,D=64", {**OF_A_CLUSTER, "KV_SPLITS": 4, "BLOCK_N": 128, "WARPS_KV": 2, "STORE": "direct"}),
    ("B=1,H=2,S=512,D=128,causal=true", {**BY_BOXES, "KV_SPLITS": 4, "BLOCK_N": 64, "BLOCK_M": 128, "WARPS_M": 8}),
    ("B=1,H=2,S=512,D=128,causal=true", {**OF_A_CLUSTER, "KV_SPLITS": 8, "BLOCK_N": 32, "PRODUCTS": "mma"}),
]
AHEAD: dict[str, Value] = {"BLOCK_M": 128, "WARPS_M": 8, "PRODUCER_WARPS": 4, "PRODUCER_REGISTERS": 24, "COPY": "tma"}
AHEAD |= {"Q_STAGES": 2, "COPY_TOGETHER": False, "PV_BEHIND": True, "IN_TURNS": True, "Q_IN_REGISTERS": False}
AHEAD |= {"ROW_SUM": "deferred", "STORE": "stmatrix", "UNROLL": 1, "CTAS_PER_SM": 1}
SEVERAL_ITEMS: list[tuple[str, Config]] = [
    ("B=4,H=20,S=387,D=64", {**AHEAD, "BLOCK_N": 96, "SCHEDULE": "stream_k"}),
    ("B=4,H=10,S=515,D=128", {**AHEAD, "BLOCK_N": 160, "SCHEDULE": "stream_k", "L2_PREFETCH": 256}),
    ("B=4,H=10,S=515,D=128,causal=true", {**AHEAD, "BLOCK_N": 128, "HEADS_TOGETHER": 4}),
    ("B=1,H=3,S=387,D=64", {**AHEAD, "BLOCK_M": 192, "WARPS_M": 12, "BLOCK_N": 64, "SCHEDULE": "stream_k"}),
    ("B=4,H=16,S=387,D=64", {"PRODUCTS": "mma", "BLOCK_N": 32, "CTAS_PER_SM": 2, "SCHEDULE": "stream_k"}),
]
"""Attention whose blocks process several whole work items and parts of other items, or only parts."""
BOXES: dict[str, Value] = {"COPY": "tma", "PRODUCER_WARPS": 1, "COPY_TOGETHER": False, "Q_IN_REGISTERS": False}
BOXES |= {"ROW_SUM": "deferred"}
HEAD_SIZES: list[tuple[str, Config]] = [
    ("B=1,H=3,S=387,D=96", {**BOXES, "BLOCK_N": 96, "UNROLL": 1}),
    ("B=1,H=3,S=387,D=96", {**BOXES, "BLOCK_N": 128, "PANEL": 32, "STORE": "stmatrix", "PV_BEHIND": True}),
    ("B=4,H=10,S=515,D=96", {**AHEAD, "BLOCK_N": 128, "PANEL": 32, "SCHEDULE": "stream_k"}),
    ("B=1,H=3,S=387,D=80", {**BOXES, "BLOCK_N": 96, "PANEL": 16}),
    ("B=1,H=3,S=387,D=80", {**BOXES, "BLOCK_N": 96, "CLUSTER": 2, "UNROLL": 1}),
    ("B=1,H=3,S=387,D=80,causal=true", {"BLOCK_N": 64, "PANEL": 16, "UNROLL": 1}),
    ("B=1,H=3,S=387,D=72", {**BOXES, "BLOCK_N": 128, "PV_BEHIND": True, "STORE": "staged"}),
    ("B=1,H=3,S=387,D=72", {"BLOCK_N": 64, "PANEL": 16, "STORE": "direct", "UNROLL": 1}),
    ("B=1,H=3,S=387,D=88", {**BOXES, "PRODUCTS": "mma", "PANEL": 32}),
    ("B=1,H=3,S=387,D=192", {**BOXES, "BLOCK_N": 80, "STORE": "staged"}),
    ("B=1,H=3,S=387,D=40", {**BOXES, "BLOCK_N": 64}),
]
"""Attention with head sizes that need partly empty panels of the TMA unit, narrower panels, or added zeros."""
LAYOUTS: list[tuple[str, Config]] = [
    ("B=3,H=4,KV=2,S=387,D=64,layout=bshd", {**BOXES, "BLOCK_N": 96, "UNROLL": 1}),
    ("B=4,H=20,KV=4,S=387,D=64,layout=bshd", {**AHEAD, "BLOCK_N": 96, "SCHEDULE": "stream_k"}),
    ("B=4,H=10,S=515,D=128,layout=qkv,causal=true,lse=true", {**AHEAD, "BLOCK_N": 128, "HEADS_TOGETHER": 4}),
    ("B=3,H=4,S=387,D=80,layout=qkv_heads", {**BOXES, "BLOCK_N": 96, "PANEL": 16, "CLUSTER": 2, "UNROLL": 1}),
    ("B=5,H=4,S=387,D=64,lengths=ragged,lse=true", {**BOXES, "BLOCK_N": 64, "PV_BEHIND": True}),
    ("B=8,H=20,S=387,D=64,lengths=ragged,layout=bshd", {**AHEAD, "BLOCK_N": 96}),
    ("B=8,H=20,S=387,D=64,lengths=packed,tokens=1601,layout=bshd", {**AHEAD, "BLOCK_N": 96}),
    ("B=8,H=4,S=387,D=64,lengths=packed,tokens=1601,layout=bshd,lse=true", {**BOXES, "BLOCK_N": 64, "PV_BEHIND": True}),
    ("B=1,H=4,S=387,D=64,causal=true,softcap=50,alibi=true", {**BOXES, "BLOCK_N": 64, "PV_BEHIND": True}),
    ("B=4,H=10,S=515,D=128,softcap=50", {**AHEAD, "BLOCK_N": 96}),
]
"""Attention with different layouts of heads, with ragged and packed sequences, and with capped or biased scores."""
MATRICES: list[Config] = [
    {},
    {"WARPS_M": 8, "WARPS_N": 1, "BLOCK_N": 256, "STAGES": 4, "CTAS_PER_SM": 1, "UNROLL": 2},
    {"BLOCK_M": 64, "WARPS_N": 1, "BLOCK_N": 64, "SPLIT_K": 3, "STORE": "stmatrix"},
    {"BLOCK_M": 64, "WARPS_N": 1, "BLOCK_N": 64, "SPLIT_K": 3, "COPY": "tma"},
    {"WARPS_M": 8, "WARPS_N": 1, "BLOCK_N": 256, "CTAS_PER_SM": 1, "COPY": "tma"},
    {"WARPS_M": 8, "WARPS_N": 1, "BLOCK_N": 256, "CTAS_PER_SM": 1, "COPY": "tma", "CLUSTER": 2},
    {"WARPS_M": 4, "WARPS_N": 1, "BLOCK_M": 64, "BLOCK_N": 64, "COPY": "tma", "CLUSTER": 2},
    {"WARPS_N": 1, "BLOCK_M": 64, "BLOCK_N": 64, "COPY": "tma", "SPLIT_K": 4, "MERGE": "cluster"},
    {"BLOCK_M": 64, "SPLIT_K": 3, "MERGE": "cluster"},
    {"BLOCK_M": 16, "WARPS_M": 1, "WARPS_N": 4, "WARPS_K": 2, "SPLIT_K": 8, "STAGES": 2}
    | {"MERGE": "cluster", "PRODUCTS": "mma"},
]
OF_WARPGROUPS: Config = {"Q_IN_REGISTERS": False, "ROW_SUM": "deferred"}
CODES: list[Config] = [
    {"BLOCK_N": 64, "UNROLL": 1},
    {"BLOCK_M": 128, "WARPS_M": 8, "BLOCK_N": 128, "PRODUCER_WARPS": 4, "COPY_TOGETHER": False, "PV_BEHIND": True}
    | {"IN_TURNS": True, "UNROLL": 1, "PRODUCER_REGISTERS": 40},
    {"BLOCK_N": 128, "WARPS_KV": 2, "PARTS_APART": True, "QK_AHEAD": True, "ACCUMULATE": "chained", "STORE": "staged"},
    {"BLOCK_N": 192, "K_STAGES": 1, "V_STAGES": 1, "COPY_TOGETHER": False, "ACCUMULATE": "chained", "UNROLL": 1},
]
DEEP = {"BLOCK_M": 128, "BLOCK_K": 128, "GROUP_M": 2, "FRAGMENTS_AHEAD": False, "WARPS_M": 8, "WARPS_N": 1}
BYTES: list[Config] = [
    {**DEEP, "BLOCK_N": 256, "COPY": "tma", "PROMOTE": 1, "PRODUCER_REGISTERS": 24, "STORE": "stmatrix"},
    {**DEEP, "WARPS_M": 4, "BLOCK_N": 64, "PROMOTE": 1, "SPLIT_K": 2, "STAGES": 3},
    {**DEEP, "WARPS_M": 4, "BLOCK_N": 64, "PROMOTE": 1, "SPLIT_K": 2, "STAGES": 3, "MERGE": "cluster"},
]
FEW_BITS: list[Config] = [
    {**DEEP, "BLOCK_N": 256, "COPY": "tma"},
    {**DEEP, "BLOCK_N": 128, "COPY": "tma", "PROMOTE": 2, "PRODUCER_REGISTERS": 40, "CLUSTER": 2, "CTAS_PER_SM": 1},
]
WARPGROUPS: list[tuple[str, str, Config]] = [
    *(("sdpa", text, each) for text in ("B=1,H=3,S=387,D=64", "B=1,H=2,S=512,D=128,causal=true") for each in ATTENTION),
    *(("sdpa", text, each) for text, each in SHARED_KEYS),
    *(("sdpa", text, each) for text, each in SEVERAL_ITEMS),
    *(("sdpa", text, each) for text, each in HEAD_SIZES),
    *(("sdpa", text, each) for text, each in LAYOUTS),
    *(("gemm", "M=1000,N=1024,K=1024", each) for each in MATRICES),
    *(("gemm", "M=203,N=328,K=840,b_layout=nk,dtype=bfloat16,epilogue=bias_gelu", each) for each in MATRICES),
    *(("sdpa_fp8", "B=1,H=3,S=400,D=64,v_layout=columns", {**OF_WARPGROUPS, **each}) for each in CODES),
    *(("sdpa_fp8", "B=1,H=2,S=528,D=128,v_layout=columns,causal=true", {**OF_WARPGROUPS, **each}) for each in CODES),
    *(
        ("sdpa_fp8", "B=1,H=2,S=272,D=64,v_layout=columns", {**OF_WARPGROUPS, "PV": "split", **each})
        for each in CODES[:3]
    ),
    *(("gemm_fp8", "M=203,N=328,K=1104,scaling=row,epilogue=bias_gelu,out=float16", each) for each in BYTES),
    *(("gemm_fp8", "M=1000,N=1024,K=1040,scaling=row,epilogue=bias", each) for each in FEW_BITS),
]
"""Problems and configs with warpgroup products, which need sm_90."""
ONE_SLOT: dict[str, Value] = {"COPY": "tma", "BLOCK_N": 32, "K_STAGES": 1, "V_STAGES": 1, "COPY_TOGETHER": False}
ONE_SLOT |= {"PRODUCER_WARPS": 1, "Q_IN_REGISTERS": False, "STORE": "stmatrix", "L2_PREFETCH": 256}
REFILLED: list[tuple[str, Config]] = [
    ("B=4,H=16,S=1024,D=64", {"ROW_SUM": "deferred", "RESCALE": "always", "MIN_BLOCKS": 2, "UNROLL": 1}),
    (
        "B=1,H=8,S=512,D=64",
        {"BLOCK_M": 32, "WARPS_M": 1, "WARPS_KV": 2, "KV_SPLITS": 8, "CTAS_PER_SM": 4, "PARTS_APART": True, "UNROLL": 2}
        | {"MAX_REGISTERS": 168, "RESCALE": "lazy", "Q_IN_REGISTERS": True},
    ),
]
"""Attention configs with mma.sync. Their results were wrong before the TMA unit waited for pending reads."""
SPLIT_AND_STAGED: dict[str, Value] = {"PRODUCTS": "mma", "KV_SPLITS": 2, "WARPS_KV": 1, "BLOCK_M": 64, "WARPS_M": 4}
SPLIT_AND_STAGED |= {"BLOCK_N": 32, "PV": "half", "ACCUMULATE": "chained", "K_STAGES": 2, "V_STAGES": 2}
SPLIT_AND_STAGED |= {"COPY_TOGETHER": False, "MERGE": "one", "PARTS_APART": False, "PV_BEHIND": False}
SPLIT_AND_STAGED |= {"IN_TURNS": False, "QK_AHEAD": False}
SPLIT_AND_STAGED |= {"TILE_READY": "meeting", "LAYOUT": "none", "STORE": "staged", "RESCALE": "always", "UNROLL": 1}
SPLIT_AND_STAGED |= {"MIN_BLOCKS": 1, "MAX_REGISTERS": 0, "VECTOR": 16, "CTAS_PER_SM": 0, "PRODUCER_WARPS": 0}
WRITTEN_IN_CUDA = ("sdpa", "sdpa_decode", "sdpa_fp8", "gemm", "gemm_fp8", "quantize_e4m3")
"""Families whose `naive` baseline is a CUDA kernel; those of other families use CuPy, which has no bfloat16."""
BASELINES = [
    ("sdpa", "B=1,H=2,S=256,D=64"),
    ("sdpa", "B=1,H=1,S=12416,D=64"),
    ("sdpa_decode", "B=2,H=32,KV=8,S=1024,D=128"),
    ("quantize_e4m3", "B=1,H=2,S=256,D=64"),
    ("sdpa_fp8", "B=1,H=2,S=256,D=64"),
    ("softmax", "rows=300,cols=4096"),
    ("softmax", "rows=40,cols=50257"),
    ("softmax", "rows=9,cols=128256,dtype=bfloat16"),
    ("softmax", "rows=70,cols=1037,dtype=float32"),
    ("rmsnorm", "rows=300,cols=4096"),
    ("rmsnorm", "rows=300,cols=5121,dtype=bfloat16"),
    ("layernorm", "rows=300,cols=4096"),
    ("transpose", "rows=1000,cols=4096"),
    ("reduce", "rows=1,cols=4194304"),
    ("gemm", "M=64,N=1024,K=1024,b_layout=nk,epilogue=bias_gelu"),
    ("gemm_fp8", "M=64,N=1024,K=1024,scaling=row,epilogue=bias_gelu"),
]
CONFIGS = 12
TERMS = Objective()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A correctness case: a problem with its inputs and expected output."""

    problem: Problem
    golden: ExpectedOutput


def trials(package: Package, problem: Problem, folder: Path, *, tails: bool = False) -> list[Trial]:
    """Return the cases of `problem`. With `tails`, also return the family's cases that use other problems."""
    reference = Reference(package.path / "reference.py", package.digest, Cache(folder))
    made = []
    for each in package.family.case_problems(problem, "cuda"):
        if each.problem is None or (each.problem != problem and not tails):
            continue
        plan = CasePlan(
            name=each.case.name,
            distribution=each.case.inputs,
            problem=each.problem,
            seeds=((1,),),
            operands=package.family.operands(each.problem),
        )
        made.append(Trial(problem=each.problem, golden=reference.golden(plan, (1,))))
    return made


def load(bench: Workbench, package: Package, problem: Problem, config: Config) -> tuple[Any, Candidate]:
    candidate = package.family.candidate(config, problem, bench.gpu, TERMS)
    source = render(package, "cuda", config, problem, candidate.derived)
    entry = package.family.implementation("cuda").entry
    path, _ = compiled(source, bench.gpu, bench.folder, entry, candidate.target(bench.gpu.architecture))
    assert candidate.launch is not None
    return bench.session.load(path, entry, call_arguments(candidate), candidate.launch), candidate


def assert_correct(bench: Workbench, package: Package, config: Config, on: list[Trial], launches: int = 3) -> None:
    """Build and verify the config for each problem of the cases, except problems that it does not support."""
    for problem, cases in groupby(on, key=lambda each: each.problem):
        if problem != on[0].problem and package.family.violations(config, problem, bench.gpu, TERMS):
            continue
        loaded, candidate = load(bench, package, problem, config)
        for golden in (each.golden for each in cases):
            buffers = bench.session.allocate(call_arguments(candidate), golden.inputs)
            checked = verify(bench.session, loaded, buffers, golden, launches=launches, deterministic=True)
            assert all(error.passed for error in checked.errors), (problem, config, checked.errors)


@pytest.mark.parametrize(("family", "text"), SHAPES)
def test_sampled_configs_of_cuda_families_are_correct_on_every_case(bench: Workbench, family: str, text: str) -> None:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    space = package.family.space(problem, bench.gpu, TERMS)
    cases = trials(package, problem, bench.folder, tails=True)
    for config in [space.default(), *space.sample(np.random.default_rng(11), CONFIGS, ())]:
        assert_correct(bench, package, config, cases)


@pytest.mark.parametrize(("family", "text", "change"), WARPGROUPS)
def test_configs_that_only_hopper_gpus_support_are_correct(
    bench: Workbench, family: str, text: str, change: Config
) -> None:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    config = {**package.family.space(problem, bench.gpu, TERMS).default(), "PRODUCTS": "wgmma", **change}
    if bench.gpu.limits["compute_capability"] != 90:
        pytest.skip("only sm_90 has warpgroup products")
    assert not package.family.violations(config, problem, bench.gpu, TERMS)
    assert_correct(bench, package, config, trials(package, problem, bench.folder))


@pytest.mark.parametrize(
    "change",
    [{}, {"PRODUCER_WARPS": 1, "CTAS_PER_SM": 2}, {"KV_SPLITS": 4, "BLOCK_M": 96, "WARPS_M": 6}],
    ids=["no producer warp", "producer warp", "six warps"],
)
def test_fp8_attention_with_split_keys_and_staged_output_is_correct(bench: Workbench, change: Config) -> None:
    """Only the last warp to arrive merges the partial results, and it must not wait for warps that have ended."""
    package = find("sdpa_fp8")
    problem = package.family.problem("B=1,H=4,S=512,D=64", "cuda")
    config = {**package.family.space(problem, bench.gpu, TERMS).default(), **SPLIT_AND_STAGED, **change}
    assert not package.family.violations(config, problem, bench.gpu, TERMS)
    assert_correct(bench, package, config, trials(package, problem, bench.folder)[:1], launches=200)


@pytest.mark.parametrize(("text", "change"), REFILLED)
def test_attention_with_one_pipeline_buffer_refills_the_buffer_only_after_all_reads(
    bench: Workbench, text: str, change: Config
) -> None:
    package = find("sdpa")
    problem = package.family.problem(text, "cuda")
    config = {**package.family.space(problem, bench.gpu, TERMS).default(), **ONE_SLOT, **change}
    if bench.gpu.limits["compute_capability"] != 90:
        pytest.skip("the TMA unit needs sm_90")
    assert not package.family.violations(config, problem, bench.gpu, TERMS)
    assert_correct(bench, package, config, trials(package, problem, bench.folder)[:1], launches=500)


RING_OF_BYTES: dict[str, Value] = {
    "BLOCK_M": 32,
    "WARPS_M": 2,
    "WARPS_KV": 2,
    "BLOCK_N": 64,
    "COPY_TOGETHER": False,
    "K_STAGES": 2,
}
RING_OF_BYTES |= {
    "V_STAGES": 2,
    "PRODUCER_WARPS": 2,
    "QK_AHEAD": True,
    "PARTS_APART": True,
    "CTAS_PER_SM": 3,
    "UNROLL": 1,
}


@pytest.mark.parametrize(
    ("family", "text", "change"),
    [
        ("sdpa_fp8", "B=1,H=2,S=451,D=64", RING_OF_BYTES),
        *(("sdpa", *each) for each in [("B=1,H=4,S=512,D=64", RINGS), ("B=1,H=2,S=499,D=64", RINGS), *ORDERED]),
    ],
)
def test_racecheck_finds_no_race_in_attention(
    gpu: Device, tmp_path: Path, family: str, text: str, change: Config
) -> None:
    if find_tool("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed on this machine")
    if gpu.limits["compute_capability"] != 90:
        pytest.skip("the TMA unit and warpgroup products need sm_90")
    package = find(family)
    problem = package.family.problem(text, "cuda")
    config = {**declared(package), **(SDPA if family == "sdpa" else {}), "UNROLL": 1, **change}
    assert not package.family.violations(config, problem, gpu, TERMS)
    with Recorder(gpu, tmp_path, tmp_path).subject(family, text, config) as subject:
        for _ in range(3):
            found = {each.tool: each for each in DRIVER.sanitizer().examine([subject], timeout_s=120)}
            assert found["racecheck"] == Sanitized(tool="racecheck")


@pytest.mark.parametrize("text", ["B=2,H=8,S=512,D=64", "B=1,H=2,S=267,D=64,causal=true"])
def test_every_config_of_the_sdpa_ladder_family_is_correct(bench: Workbench, text: str) -> None:
    package = find("sdpa_ladder")
    problem = package.family.problem(text, "cuda")
    cases = trials(package, problem, bench.folder)
    for step in steps(package):
        if not package.family.violations(step.config, problem, bench.gpu, TERMS):
            assert_correct(bench, package, step.config, cases)


@pytest.mark.parametrize(("family", "text"), BASELINES)
def test_baselines_of_cuda_families_run_and_are_timed(bench: Workbench, family: str, text: str) -> None:
    package = find(family)
    problem = package.family.problem(text, "cuda")
    golden = trials(package, problem, bench.folder)[0].golden
    reference = Reference(package.path / "reference.py", package.digest, Cache(bench.folder))
    ready = prepare_baselines(bench.session, reference, problem, golden, function=DRIVER.baselines, sets=lambda _: 1)
    expected = "torch" if problem.get("dtype") == "bfloat16" and family not in WRITTEN_IN_CUDA else "naive"
    assert expected in ready.timers, ready.unavailable
    assert all(0.5 < timer.sample() < 1e5 for timer in ready.timers.values())


@pytest.mark.parametrize("causal", ["false", "true"])
def test_attention_reference_agrees_on_gpu_and_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, causal: str
) -> None:
    package = find("sdpa")
    problem = package.family.problem(f"B=1,H=2,S=200,D=64,causal={causal}", "cuda")
    on_cores = trials(package, problem, tmp_path / "cores")
    small = (package.path / "reference.py").read_text()
    monkeypatch.setattr(
        "workers.measure.family.module.ReferenceModule._load", lambda self, name: _loaded(small, "LARGE_FLOPS", 0.0)
    )
    on_gpu = trials(package, problem, tmp_path / "gpu")
    for one, other in zip((each.golden for each in on_cores), (each.golden for each in on_gpu), strict=True):
        assert np.allclose(one.reference["out"], other.reference["out"], rtol=1e-12, atol=1e-13)
        assert one.limits["out"].max_abs == pytest.approx(other.limits["out"].max_abs, rel=0.5)


def _loaded(source: str, name: str, value: float) -> ModuleType:
    """Load a copy of the module with a changed constant."""
    module = ModuleType("reference")
    module.__file__ = __file__
    exec(compile(source, "reference.py", "exec"), module.__dict__)
    setattr(module, name, value)
    return module
