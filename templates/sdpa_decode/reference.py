"""Inputs, reference, yardstick and baselines for attention with few queries. Only runners execute this file."""

import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded, rounded_to
from evo.reference.heads import draw_heads
from evo.reference.library import computing
from evo.reference.pieces import usable_cores
from evo.reference.rivals import rivals
from evo.reference.torch_baselines import tensor_of, torch_on_cpu, torch_on_gpu

LARGE_FLOPS = 5e9
"""Minimum number of operations for which a GPU computes the references of 16-bit problems. This takes a GPU at most a
second, but a CPU up to a minute."""

BEYOND = 64.0
"""Value of keys and values after the end of the cache, in the last page. It is also added to `v` beyond the length of a
batch entry. A result that uses such a key is wrong.
"""

LEAST_HALF_DEVIATION = 0.05
"""Minimum standard deviation of float16 inputs. With smaller inputs, results would be subnormal, and their rounding
errors would exceed the tolerance."""


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `q` (B, H, Q, D), `k` and `v` (B, KV, S, D). `k` and `v` are returned in the problem's cache layout.

    For a paged cache, `k` and `v` have shape (pages, page, KV, D), and a block table is drawn. For a ragged batch,
    lengths are also drawn.
    """
    fields = {"q": ("B", "H", "Q", "D"), "k": ("B", "KV", "S", "D"), "v": ("B", "KV", "S", "D")}
    shapes = {name: tuple(problem[field] for field in shape) for name, shape in fields.items()}
    least = LEAST_HALF_DEVIATION if problem["dtype"] == "float16" else 0.0
    drawn = draw_heads(rng, shapes, distribution, least_deviation=least)
    lengths = {}
    if _ragged(problem):
        lengths["lengths"] = _draw_lengths(problem, rng)
        for entry, length in enumerate(lengths["lengths"]):
            drawn["v"][entry, :, length:] += BEYOND
    heads = {name: encoded(array, problem["dtype"]) for name, array in drawn.items()}
    return {"q": heads["q"], **_laid_out(problem, heads, rng)} | lengths


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64."""
    return {"out": _attention(problem, inputs, np.float64)}


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result, computed in the inputs' precision. Kernel errors are compared with the error of this result.

    For 16-bit dtypes, scores, weights and result are rounded to the dtype, and products accumulate in float32, as on
    tensor cores.
    """
    dtype = problem["dtype"]
    if dtype == "float32":
        return {"out": _attention(problem, inputs, np.float32)}
    return {"out": decoded(encoded(_attention(problem, inputs, np.float32, rounded=dtype), dtype), dtype)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` repeats the cache for each query head. ``numpy-in-place`` combines the query heads that share a KV head
    into one matrix, and avoids temporary arrays. ``torch`` is PyTorch's fused kernel on ``OMP_NUM_THREADS`` threads, or
    on one thread if the variable is not set.
    """
    heads, scale = problem["H"] // problem["KV"], problem["D"] ** -0.5

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        q, k, v = (decoded(each, problem["dtype"]) for each in (inputs["q"], *_cache(problem, inputs)))
        hidden = ~_seen(problem, inputs, problem["Q"])

        def call() -> object:
            keys, values = np.repeat(k, heads, axis=1), np.repeat(v, heads, axis=1)
            scores = q @ keys.swapaxes(-1, -2) * q.dtype.type(scale)
            if problem["causal"] or _ragged(problem):
                scores = np.where(hidden, -np.inf, scores)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            return weights / weights.sum(axis=-1, keepdims=True) @ values

        return call

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        k, v = (decoded(each, problem["dtype"]) for each in _cache(problem, inputs))
        q = _grouped(problem, decoded(inputs["q"], problem["dtype"])) * np.float32(scale)
        scores, out = np.empty((*q.shape[:-1], problem["S"]), q.dtype), np.empty_like(q)
        hidden = ~_seen(problem, inputs, q.shape[2])

        def call() -> object:
            np.matmul(q, k.swapaxes(-1, -2), out=scores)
            if problem["causal"] or _ragged(problem):
                np.copyto(scores, -np.inf, where=hidden)
            np.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
            np.exp(scores, out=scores)
            np.matmul(scores, v, out=out)
            np.divide(out, scores.sum(axis=-1, keepdims=True), out=out)
            return out.reshape(inputs["q"].shape)

        return call

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch = torch_on_cpu()
        q, k, v = (tensor_of(each, problem["dtype"]) for each in (inputs["q"], *_cache(problem, inputs)))
        attention = torch.nn.functional.scaled_dot_product_attention
        masked = problem["causal"] or _ragged(problem)
        mask = torch.from_numpy(_seen(problem, inputs, problem["Q"])) if masked else None
        return lambda: attention(q, k, v, attn_mask=mask, enable_gqa=heads > 1)

    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's backends, other libraries, and ``naive``, the kernel in ``naive.cu``."""
    backends = ("flash", "cudnn", "efficient", "math")
    on_torch = {f"torch-{name}": partial(_on_torch, problem, name) for name in backends}
    return {**on_torch, **rivals("sdpa_decode", problem), "naive": partial(_naive, problem)}


def _on_torch(problem: Mapping[str, Any], backend: str, inputs: Arrays) -> Callable[[], object]:
    """Return a function that calls one of PyTorch's attention backends.

    The backend ``efficient`` does not support KV heads that several query heads share. These query heads are therefore
    passed as rows of one head, with a mask for each row. Flash attention takes no mask; its built-in causal mask is
    used, which aligns the last query with the last key. The remaining backends get the mask as an argument.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    torch = torch_on_gpu()
    chosen = getattr(SDPBackend, "MATH" if backend == "math" else f"{backend.upper()}_ATTENTION")
    shared = problem["H"] != problem["KV"] and backend != "efficient"
    rows = inputs["q"] if shared else _grouped(problem, inputs["q"])
    q, k, v = (tensor_of(each, problem["dtype"]).cuda() for each in (rows, *_cache(problem, inputs)))
    mask: Any = None
    if _ragged(problem) or (problem["causal"] and problem["Q"] > 1):
        seen = torch.from_numpy(_seen(problem, inputs, q.shape[2])).cuda()
        lower_right = backend == "flash" and not _ragged(problem)
        mask = causal_lower_right(problem["Q"], problem["S"]) if lower_right else seen

    def call() -> object:
        with sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=shared)

    return call


def _naive(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    import cupy

    group = problem["H"] // problem["KV"] * problem["Q"]
    queries = problem["Q"] if problem["causal"] else 1
    macros = {"S": problem["S"], "D": problem["D"], "GROUP": group, "QUERIES": queries}
    macros |= {"ENTRY": problem["H"] * problem["Q"]}
    macros |= {"SCALE": f"{problem['D'] ** -0.5}f", "BFLOATS": int(problem["dtype"] == "bfloat16")}
    source = Path(__file__).with_name("naive.cu").read_text()
    kernel = cupy.RawKernel(source, "attention", tuple(f"-D{name}={value}" for name, value in macros.items()))
    q, k, v = (cupy.asarray(np.ascontiguousarray(each)) for each in (inputs["q"], *_cache(problem, inputs)))
    lengths = cupy.asarray(inputs.get("lengths", np.full(problem["B"], problem["S"], np.int32)))
    rows = problem["B"] * problem["H"] * problem["Q"]
    weights, out = cupy.empty((rows, problem["S"]), cupy.float32), cupy.empty_like(q)

    def call() -> object:
        kernel((rows,), (128,), (q, k, v, lengths, weights, out))
        return out

    return call


def _cache(problem: Mapping[str, Any], inputs: Arrays) -> tuple[Array, Array]:
    """Return `k` and `v` with shape (B, KV, S, D). They are copies if the cache is paged."""
    k, v = inputs["k"], inputs["v"]
    if problem.get("page"):
        shape = (problem["B"], -1, *k.shape[2:])
        k, v = (each[inputs["block_table"]].reshape(shape)[:, : problem["S"]] for each in (k, v))
    elif problem.get("layout", "bhsd") == "bhsd":
        return k, v
    return k.swapaxes(1, 2), v.swapaxes(1, 2)


def _laid_out(problem: Mapping[str, Any], heads: Arrays, rng: np.random.Generator) -> dict[str, Array]:
    """Return `k` and `v` (B, KV, S, D) as cache arguments. A last page that is not full is filled with `BEYOND`."""
    k, v = heads["k"], heads["v"]
    if not problem.get("page") and problem.get("layout", "bhsd") == "bhsd":
        return {"k": k, "v": v}
    rows = {name: np.ascontiguousarray(each.swapaxes(1, 2)) for name, each in (("k", k), ("v", v))}
    if not problem.get("page"):
        return rows
    each_has = -(-problem["S"] // problem["page"])
    table = rng.permutation(problem["B"] * each_has).astype(np.int32).reshape(problem["B"], each_has)
    beyond = each_has * problem["page"] - problem["S"]
    paged: dict[str, Array] = {"block_table": table}
    for name, array in rows.items():
        hidden = encoded(np.full((problem["B"], beyond, *array.shape[2:]), BEYOND, np.float32), problem["dtype"])
        filled = np.concatenate([array, hidden], axis=1)
        pages = np.empty((table.size, problem["page"], *array.shape[2:]), array.dtype)
        pages[table] = filled.reshape(*table.shape, *pages.shape[1:])
        paged[name] = pages
    return paged


def _grouped(problem: Mapping[str, Any], q: Array) -> Array:
    """Return `q` with shape (B, KV, H / KV * Q, D). Query rows that share a KV head are adjacent."""
    return q.reshape(problem["B"], problem["KV"], -1, problem["D"])


def _ragged(problem: Mapping[str, Any]) -> bool:
    return bool(problem.get("lengths", "full") == "ragged")


def _draw_lengths(problem: Mapping[str, Any], rng: np.random.Generator) -> Array:
    """Return sequence lengths that are spread evenly between one key and S keys, in random order.

    If attention is causal, each batch entry has at least as many keys as queries.
    """
    shares = (2 * np.arange(problem["B"]) + 1) * problem["S"] // (2 * problem["B"])
    lengths = np.maximum(shares, problem["Q"] if problem["causal"] else 1).astype(np.int32)
    lengths[-1] = problem["S"] if problem["B"] > 1 else lengths[-1]
    return rng.permutation(lengths)


def _seen(problem: Mapping[str, Any], inputs: Arrays, rows: int) -> Array:
    """Return a mask that is True for the keys to which each query row attends.

    The mask has the shape (rows, S), or (B, 1, rows, S) if the batch is ragged.

    Args:
        rows: number of query rows: those of one query head, or of several heads, one after another.
    """
    behind = problem["Q"] - 1 - np.arange(rows)[:, None] % problem["Q"] if problem["causal"] else 0
    keys, shape = np.arange(problem["S"]), (rows, problem["S"])
    if _ragged(problem):
        return np.broadcast_to(keys < inputs["lengths"][:, None, None, None] - behind, (problem["B"], 1, *shape))
    return np.broadcast_to(keys < problem["S"] - behind, shape)


def _attention(problem: Mapping[str, Any], inputs: Arrays, dtype: Any, rounded: Any = None) -> Array:
    """Return the result of attention, computed on all cores or on a GPU.

    Args:
        dtype: NumPy dtype in which the result is computed.
        rounded: dtype to which scores and weights are rounded. If None, they are not rounded.
    """
    flops = 4.0 * problem["B"] * problem["H"] * problem["Q"] * problem["S"] * problem["D"]
    large = math.inf if problem["dtype"] == "float32" else LARGE_FLOPS  # float32 problems are searched only on CPUs
    with computing(flops, large=large) as library:
        return _head_by_head(library, problem, inputs, dtype, rounded)


def _head_by_head(library: Any, problem: Mapping[str, Any], inputs: Arrays, dtype: Any, rounded: Any) -> Array:
    """Return the result of attention, computed one KV head at a time."""
    queries, (keys, values) = _grouped(problem, inputs["q"]), _cache(problem, inputs)
    out = np.empty(queries.shape, dtype)
    hidden = library.asarray(~_seen(problem, inputs, queries.shape[2]))

    def kept(values: Array) -> Array:
        return values if rounded is None else rounded_to(values, rounded)

    def compute(head: tuple[int, ...]) -> None:
        codes = (library.asarray(each[head]) for each in (queries, keys, values))
        q, k, v = (decoded(each, problem["dtype"]).astype(dtype) for each in codes)
        scores = kept(q @ k.T * out.dtype.type(problem["D"] ** -0.5))
        scores[hidden[head[0], 0] if _ragged(problem) else hidden] = -np.inf
        weights = kept(library.exp(scores - scores.max(axis=-1, keepdims=True)))
        result = weights @ v / weights.sum(axis=-1, keepdims=True)
        out[head] = result if library is np else result.get()

    with ThreadPoolExecutor(usable_cores() if library is np else 1) as pool:
        list(pool.map(compute, np.ndindex(out.shape[:2])))
    return out.reshape(inputs["q"].shape)
