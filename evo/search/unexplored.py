"""Finds hardware mechanisms, such as tensor cores, that sources use, and mechanisms that no source uses yet."""

import re
from collections.abc import Collection, Mapping, Sequence

CUDA: Mapping[str, str] = {
    "vector loads of 8 or 16 bytes": r"\b(?:float4|float2|int4|uint4|int2|uint2|half2|__nv_bfloat162)\b|\.v[24]\b",
    "shared memory": r"__shared__",
    "exchange between the lanes of a warp": r"__shfl|__reduce_\w+_sync",
    "asynchronous copies to shared memory (cp.async)": r"cp\.async|__pipeline_memcpy_async|memcpy_async",
    "bulk copies by the tensor memory accelerator": r"cp\.async\.bulk|tensor_map|tma",
    "tensor cores (mma, wmma)": r"\bmma\b|mma\.sync|wmma::",
    "warpgroup tensor cores (wgmma)": r"wgmma",
    "clusters with distributed shared memory": r"cluster",
    "persistent blocks that take several work items": r"gridDim\.x|persistent",
    "loads that bypass a cache or have a cache hint": r"__ldg|__ldcs|ld\.global\.nc|L2::|evict_",
}
C: Mapping[str, str] = {
    "explicit vectors (vector_size, intrinsics)": r"vector_size|_mm\d*_|float32x4|immintrin",
    "several accumulators or unrolled loops": r"#pragma\s+(?:GCC\s+)?unroll|UNROLL|unroll",
    "tiles that fit a cache": r"TILE|BLOCK|tile|block",
    "software prefetch": r"__builtin_prefetch|_mm_prefetch",
    "stores that bypass the cache": r"stream|nontemporal|_mm\w*_stream",
    "several threads": r"pthread|THREADS|omp",
    "fused multiply and add": r"\bfma\w*\(|_fmadd_",
}


BINARY: Mapping[str, str] = {
    "vector access": "vector loads of 8 or 16 bytes",
    "shared memory": "shared memory",
    "shuffle": "exchange between the lanes of a warp",
    "async": "asynchronous copies to shared memory (cp.async)",
    "tma": "bulk copies by the tensor memory accelerator",
    "mma": "tensor cores (mma, wmma)",
    "wgmma": "warpgroup tensor cores (wgmma)",
    "threads": "several threads",
    "FMA": "fused multiply and add",
}
"""Names of mechanisms in `CUDA` and `C`, by the names of the same mechanisms in a binary."""


def mechanisms(sources: Sequence[str], *, cuda: bool) -> tuple[str, ...]:
    """Return the mechanisms that at least one source uses, found by patterns in the text.

    Args:
        cuda: True for sources in CUDA C++, False for C and C++.
    """
    text = "\n".join(sources)
    return tuple(name for name, pattern in (CUDA if cuda else C).items() if re.search(pattern, text))


def unexplored(sources: Sequence[str], binaries: Collection[str], *, cuda: bool) -> tuple[str, ...]:
    """Return the hardware mechanisms that neither the sources nor the binaries use.

    Args:
        binaries: mechanisms that the compiled binaries use. The compiler may select a mechanism that the source does
            not mention.
        cuda: True for sources in CUDA C++, False for C and C++.
    """
    used = {*mechanisms(sources, cuda=cuda), *(BINARY[each] for each in binaries if each in BINARY)}
    return tuple(name for name in (CUDA if cuda else C) if name not in used)
