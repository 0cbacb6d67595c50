"""Inputs, reference, yardstick and baselines for attention. Only runners execute this file."""

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
from evo.reference.torch_baselines import torch_on_cpu, torch_on_gpu

SCORES_BYTES = 1 << 30
"""Maximum size in bytes of the score matrices and their temporaries. It limits the number of heads that are computed in
parallel."""

LARGE_FLOPS = 2e9
"""Number of floating-point operations from which a GPU computes the results of a 16-bit problem. CPU cores need longer
to round its scores and weights than for its products."""

HIDDEN_VALUE = 64.0
"""Value added to `v` beyond the length of a batch entry, so that a result that uses a padded key is wrong."""

LEAST_HALF_DEVIATION = 0.05
"""Minimum standard deviation of float16 inputs. With smaller inputs, results would be subnormal, and their rounding
errors would exceed the tolerance."""


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `q` (B, H, S, D), `k` and `v` (B, KV, S_KV, D), and return them in the problem's layout.

    For ragged sequences, lengths are also drawn, and for ALiBi, slopes. Packed sequences are drawn with S tokens each,
    and then truncated to their lengths.
    """
    shapes = {"q": tuple(problem[name] for name in ("B", "H", "S", "D"))}
    shapes |= dict.fromkeys("kv", (problem["B"], _kv_heads(problem), _keys(problem), problem["D"]))
    least = LEAST_HALF_DEVIATION if problem["dtype"] == "float16" else 0.0
    drawn = draw_heads(rng, shapes, distribution, least_deviation=least)
    lengths = {}
    if _ragged(problem):
        lengths["lengths"] = _draw_lengths(problem, rng)
        for entry, length in enumerate(lengths["lengths"]):
            drawn["v"][entry, :, length:] += HIDDEN_VALUE
    if _packed(problem):
        lengths["cu_seqlens"] = _draw_starts(problem, rng)
        drawn = {name: _packed_rows(array, lengths["cu_seqlens"]) for name, array in drawn.items()}
    heads = {name: encoded(array, problem["dtype"]) for name, array in drawn.items()}
    return _laid_out(problem, heads) | lengths | _draw_slopes(problem, rng)


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64."""
    return _attention(problem, inputs, np.float64)


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result, computed in the inputs' precision. Kernel errors are compared with the error of this result.

    For 16-bit dtypes, scores, weights and result are rounded to the dtype, and products accumulate in float32, as on
    tensor cores.
    """
    dtype = problem["dtype"]
    if dtype == "float32":
        return _attention(problem, inputs, np.float32)
    results = _attention(problem, inputs, np.float32, rounded=dtype)
    return results | {"out": decoded(encoded(results["out"], dtype), dtype)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``numpy-in-place`` avoids temporary arrays. ``torch`` is PyTorch's fused
    kernel on ``OMP_NUM_THREADS`` threads, or on one thread if the variable is not set.
    """
    if _packed(problem):
        return {name: _on_padded(problem, each) for name, each in baselines(_padded(problem)).items()}
    group = problem["H"] // _kv_heads(problem)

    def with_numpy(inputs: Arrays) -> Callable[[], object]:
        heads, hidden = _decoded_heads(problem, inputs), _hidden_keys(problem, inputs)
        q = heads["q"]
        scale = q.dtype.type(problem["D"] ** -0.5)
        adjust = _adjustment(problem, inputs, np.float32)

        def call() -> object:
            k, v = (heads[name] if group == 1 else np.repeat(heads[name], group, axis=1) for name in ("k", "v"))
            scores = adjust(q @ k.swapaxes(-1, -2) * scale)
            if hidden is not None:
                scores = np.where(hidden, -np.inf, scores)
            weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
            return weights / weights.sum(axis=-1, keepdims=True) @ v

        return call

    def with_numpy_in_place(inputs: Arrays) -> Callable[[], object]:
        heads, hidden = _decoded_heads(problem, inputs), _hidden_keys(problem, inputs)
        q = heads["q"] * heads["q"].dtype.type(problem["D"] ** -0.5)
        k, v = (heads[name] if group == 1 else np.repeat(heads[name], group, axis=1) for name in ("k", "v"))
        scores, out = np.empty((*q.shape[:-1], _keys(problem)), q.dtype), np.empty(q.shape, q.dtype)
        cap, bias = problem.get("softcap", 0.0), _bias(problem, inputs, np.float32)

        def call() -> object:
            np.matmul(q, k.swapaxes(-1, -2), out=scores)
            if cap:
                np.multiply(np.tanh(np.divide(scores, cap, out=scores), out=scores), cap, out=scores)
            if bias is not None:
                np.subtract(scores, bias, out=scores)
            if hidden is not None:
                np.copyto(scores, -np.inf, where=hidden)
            np.subtract(scores, scores.max(axis=-1, keepdims=True), out=scores)
            np.exp(scores, out=scores)
            total = scores.sum(axis=-1, keepdims=True)
            np.matmul(scores, v, out=out)
            return np.divide(out, total, out=out)

        return call

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch = torch_on_cpu()
        q, k, v = _torch_heads(problem, inputs, "cpu")
        terms = _torch_terms(problem, inputs, "cpu")
        return partial(torch.nn.functional.scaled_dot_product_attention, q, k, v, **terms)

    return {"numpy": with_numpy, "numpy-in-place": with_numpy_in_place, "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's backends, other libraries, and ``naive``, the kernel in ``naive.cu``.

    Packed sequences are padded for PyTorch and ``naive``. The padding is not timed.
    """
    if _packed(problem):
        padded = {name: _on_padded(problem, each) for name, each in cuda_baselines(_padded(problem)).items()}
        return padded | rivals("sdpa", problem)
    backends = ("flash", "cudnn", "efficient", "math")
    on_torch = {f"torch-{name}": partial(_on_torch, problem, name) for name in backends}
    return {**on_torch, **rivals("sdpa", problem), "naive": partial(_naive, problem)}


def _on_torch(problem: Mapping[str, Any], backend: str, inputs: Arrays) -> Callable[[], object]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right

    torch = torch_on_gpu()
    chosen = getattr(SDPBackend, "MATH" if backend == "math" else f"{backend.upper()}_ATTENTION")
    q, k, v = _torch_heads(problem, inputs, "cuda")

    terms = _torch_terms(problem, inputs, "cuda")
    masked = problem.get("window") or problem.get("alibi") or _ragged(problem)
    if backend in ("flash", "cudnn") and "attn_mask" in terms and not masked:
        terms["attn_mask"] = causal_lower_right(problem["S"], _keys(problem))
    if backend == "efficient" and terms.pop("enable_gqa", False):
        k, v = (each.repeat_interleave(problem["H"] // _kv_heads(problem), dim=1) for each in (k, v))

    def call() -> object:
        with sdpa_kernel(chosen):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **terms)

    return call


def _torch_heads(problem: Mapping[str, Any], inputs: Arrays, device: str) -> list[Any]:
    """Return `q`, `k` and `v` on a device, as PyTorch tensors of shape (B, heads, length, D)."""
    import torch

    of = {
        name: torch.from_numpy(array).to(device) for name, array in inputs.items() if name not in ("lengths", "slopes")
    }
    heads = _heads(problem, of)
    tensors = [heads[name] for name in ("q", "k", "v")]
    return [each.view(torch.bfloat16) for each in tensors] if problem["dtype"] == "bfloat16" else tensors


def _naive(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    import cupy

    macros = {name: problem[name] for name in ("S", "D")}
    macros |= {
        "KEYS": _keys(problem),
        "HEADS_PER_KV": problem["H"] // _kv_heads(problem),
        "WINDOW": problem.get("window", 0),
    }
    macros |= {"CAUSAL": int(problem["causal"]), "SCALE": f"{problem['D'] ** -0.5}f"}
    macros |= {"BFLOATS": int(problem["dtype"] == "bfloat16"), "HEADS": problem["H"]}
    macros |= {"SOFTCAP": f"{problem.get('softcap', 0.0)}f"}
    heads = _heads(problem, inputs)
    source = Path(__file__).with_name("naive.cu").read_text()
    kernel = cupy.RawKernel(source, "attention", tuple(f"-D{name}={value}" for name, value in macros.items()))
    q, k, v = (cupy.asarray(np.ascontiguousarray(heads[name])) for name in ("q", "k", "v"))
    lengths = cupy.asarray(inputs.get("lengths", np.full(problem["B"], _keys(problem), np.int32)))
    slopes = cupy.asarray(inputs.get("slopes", np.zeros(problem["H"], np.float32)))
    out = cupy.empty_like(q)
    blocks, scores_bytes = problem["B"] * problem["H"] * problem["S"], 4 * _keys(problem)
    kernel.max_dynamic_shared_size_bytes = scores_bytes

    def call() -> object:
        kernel((blocks,), (128,), (q, k, v, lengths, slopes, out), shared_mem=scores_bytes)
        return out

    return call


def _attention(problem: Mapping[str, Any], inputs: Arrays, dtype: Any, rounded: Any = None) -> dict[str, Array]:
    """Return the result of attention, computed on all cores or on a GPU.

    Args:
        dtype: NumPy dtype in which the result is computed.
        rounded: dtype to which scores and weights are rounded. If None, they are not rounded.
    """
    if _packed(problem):
        results = _attention(_padded(problem), _padded_inputs(problem, inputs), dtype, rounded)
        rows = {name: _packed_rows(array, inputs["cu_seqlens"]) for name, array in results.items()}
        return rows | {"out": np.ascontiguousarray(rows["out"].swapaxes(1, 2))}
    flops = 4.0 * problem["B"] * problem["H"] * problem["S"] * _keys(problem) * problem["D"]
    large = math.inf if problem["dtype"] == "float32" else LARGE_FLOPS  # 16-bit problems are searched only on GPUs
    with computing(flops, large=large) as library:
        return _by_heads(library, problem, inputs, dtype, rounded)


def _by_heads(library: Any, problem: Mapping[str, Any], inputs: Arrays, dtype: Any, rounded: Any) -> dict[str, Array]:
    """Return the result of attention. Each CPU core computes one head at a time, and a GPU computes several."""
    heads = _heads(problem, inputs)
    out = np.empty(heads["q"].shape, dtype)
    lse = np.empty(heads["q"].shape[:3], dtype)
    group = problem["H"] // _kv_heads(problem)
    unseen = _hidden_keys(problem, inputs)
    hidden = None if unseen is None else library.asarray(unseen)
    cap = out.dtype.type(problem.get("softcap", 0.0))
    distances = library.asarray(_distances(problem).astype(dtype)) if problem.get("alibi") else None

    def kept(values: Array) -> Array:
        return values if rounded is None else rounded_to(values, rounded)

    def compute(some: Array) -> None:
        """Compute some heads at the same time. `some` (n, 2) contains their batch entries and numbers."""
        entries, numbers = some.T
        places = {"q": (entries, numbers)} | dict.fromkeys("kv", (entries, numbers // group))
        codes = (library.asarray(heads[name][place]) for name, place in places.items())
        q, k, v = (decoded(each, problem["dtype"]).astype(dtype) for each in codes)
        scores = kept(q @ k.swapaxes(-1, -2) * out.dtype.type(problem["D"] ** -0.5))
        if cap:
            scores = kept(library.tanh(scores / cap) * cap)
        if distances is not None:
            slopes = library.asarray(inputs["slopes"][numbers, None, None].astype(dtype))
            scores = kept(scores - slopes * distances)
        if hidden is not None:
            scores[hidden[entries % len(hidden), 0]] = -np.inf
        top = scores.max(axis=-1, keepdims=True)
        weights = kept(library.exp(scores - top))
        total = weights.sum(axis=-1, keepdims=True)
        result, logarithm = weights @ v / total, (top + library.log(total))[..., 0]
        out[entries, numbers] = result if library is np else result.get()
        lse[entries, numbers] = logarithm if library is np else logarithm.get()

    affordable = max(1, SCORES_BYTES // (4 * problem["S"] * _keys(problem) * out.itemsize))
    at_once, threads = (1, min(usable_cores(), affordable)) if library is np else (affordable, 1)
    each_head = np.indices(out.shape[:2]).reshape(2, -1).T
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(compute, (each_head[first : first + at_once] for first in range(0, len(each_head), at_once))))
    if not _heads_first(problem):
        out = np.ascontiguousarray(out.swapaxes(1, 2))
    return {"out": out, "lse": lse} if problem.get("lse") else {"out": out}


def _heads(problem: Mapping[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return views of arrays or tensors: `q` (B, H, S, D), and `k` and `v` (B, KV, S_KV, D)."""
    layout, heads, shared = problem.get("layout", "bhsd"), problem["H"], _kv_heads(problem)
    if layout == "qkv":
        qkv = tensors["qkv"]
        parts = {"q": qkv[:, :, :heads], "k": qkv[:, :, heads : heads + shared], "v": qkv[:, :, heads + shared :]}
    elif layout == "qkv_heads":
        parts = {name: tensors["qkv"][:, :, index::3] for index, name in enumerate("qkv")}
    else:
        parts = {name: tensors[name] for name in ("q", "k", "v")}
    return parts if _heads_first(problem) else {name: each.swapaxes(1, 2) for name, each in parts.items()}


def _laid_out(problem: Mapping[str, Any], heads: Arrays) -> dict[str, Array]:
    """Return `q` (B, H, S, D), `k` and `v` (B, KV, S_KV, D) in the problem's layout, as kernel arguments.

    Inverse of `_heads`.
    """
    if _heads_first(problem):
        return dict(heads)
    parts = {name: np.ascontiguousarray(each.swapaxes(1, 2)) for name, each in heads.items()}
    if problem["layout"] == "bshd":
        return parts
    if problem["layout"] == "qkv":
        return {"qkv": np.concatenate([parts[name] for name in "qkv"], axis=2)}
    stacked = np.stack([parts[name] for name in "qkv"], axis=3)
    return {"qkv": stacked.reshape(*stacked.shape[:2], -1, problem["D"])}


def _decoded_heads(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    return {name: decoded(each, problem["dtype"]) for name, each in _heads(problem, inputs).items()}


def _draw_lengths(problem: Mapping[str, Any], rng: np.random.Generator) -> Array:
    """Return sequence lengths that are spread evenly between one key and all keys of the problem, in random order."""
    shares = (2 * np.arange(problem["B"]) + 1) * _keys(problem) // (2 * problem["B"])
    lengths = np.maximum(shares, 1).astype(np.int32)
    lengths[-1] = _keys(problem) if problem["B"] > 1 else lengths[-1]
    return rng.permutation(lengths)


def _draw_slopes(problem: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Array]:
    """Return `slopes`, a random ALiBi slope from 1/64 to 0.7 for each head, or an empty dict without ALiBi."""
    if not problem.get("alibi"):
        return {}
    return {"slopes": np.exp2(-rng.uniform(0.5, 6.0, problem["H"])).astype(np.float32)}


def _distances(problem: Mapping[str, Any]) -> Array:
    """Return the distances between queries and keys in tokens, (S, S_KV).

    The last query has the position of the last key.
    """
    keys = _keys(problem)
    distances: Array = np.abs(np.arange(problem["S"])[:, None] + keys - problem["S"] - np.arange(keys))
    return distances


def _bias(problem: Mapping[str, Any], inputs: Arrays, dtype: Any) -> Array | None:
    """Return the bias that ALiBi subtracts from the scores, (H, S, S_KV); None without ALiBi."""
    if not problem.get("alibi"):
        return None
    bias: Array = inputs["slopes"][:, None, None].astype(dtype) * _distances(problem).astype(dtype)
    return bias


def _adjustment(problem: Mapping[str, Any], inputs: Arrays, dtype: Any) -> Callable[[Array], Array]:
    """Return the function that caps the scores and subtracts the ALiBi bias before the softmax."""
    cap, bias = problem.get("softcap", 0.0), _bias(problem, inputs, dtype)

    def adjust(scores: Array) -> Array:
        capped = np.tanh(scores / dtype(cap)) * dtype(cap) if cap else scores
        return capped if bias is None else capped - bias

    return adjust


def _draw_starts(problem: Mapping[str, Any], rng: np.random.Generator) -> Array:
    """Return the start index of each packed sequence, and the end index of the last sequence.

    Lengths are spread evenly around their mean, as far as S permits, in random order. If there are at
    least three sequences, and their mean length is at most S / 2, the shortest sequence is empty.
    """
    count, longest, tokens = problem["B"], problem["S"], problem["tokens"]
    mean = tokens / count
    shares = (2 * np.arange(count) + 1) / count
    lengths = mean * shares if 2 * mean <= longest else longest - (longest - mean) * shares
    if count > 2 and 2 * mean <= longest:
        lengths[:2] = 0, lengths[:2].sum()
    ends = np.rint(np.cumsum(rng.permutation(lengths))).astype(np.int32)
    ends[-1] = tokens
    return np.concatenate([np.zeros(1, np.int32), ends])


def _packed_rows(heads: Array, starts: Array) -> Array:
    """Pack padded sequences of shape (B, H, S, …): return them with shape (1, H, tokens, …), without padding.

    Args:
        starts: start index of each sequence, and the end index of the last sequence.
    """
    return np.concatenate([heads[entry, :, :rows] for entry, rows in enumerate(np.diff(starts))], axis=1)[None]


def _padded(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return the problem that results if packed sequences are padded to S rows each."""
    return {**problem, "lengths": "ragged", "layout": "bhsd", "tokens": 0}


def _padded_inputs(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the inputs of packed sequences, padded with zeros to S rows each. An empty sequence gets the length 1."""
    starts = inputs["cu_seqlens"]
    padded = {}
    for name, packed in _heads(problem, inputs).items():
        padded[name] = np.zeros((problem["B"], packed.shape[1], problem["S"], packed.shape[3]), packed.dtype)
        for entry, rows in enumerate(np.diff(starts)):
            padded[name][entry, :, :rows] = packed[0, :, starts[entry] : starts[entry + 1]]
    slopes = {"slopes": inputs["slopes"]} if problem.get("alibi") else {}
    return padded | slopes | {"lengths": np.maximum(np.diff(starts), 1)}


def _on_padded(
    problem: Mapping[str, Any], baseline: Callable[[Arrays], Callable[[], object]]
) -> Callable[[Arrays], Callable[[], object]]:
    return lambda inputs: baseline(_padded_inputs(problem, inputs))


def _heads_first(problem: Mapping[str, Any]) -> bool:
    return bool(problem.get("layout", "bhsd") == "bhsd")


def _ragged(problem: Mapping[str, Any]) -> bool:
    return bool(problem.get("lengths", "full") == "ragged")


def _packed(problem: Mapping[str, Any]) -> bool:
    return bool(problem.get("lengths", "full") == "packed")


def _kv_heads(problem: Mapping[str, Any]) -> int:
    return int(problem.get("KV") or problem["H"])


def _keys(problem: Mapping[str, Any]) -> int:
    return int(problem.get("S_KV") or problem["S"])


def _torch_terms(problem: Mapping[str, Any], inputs: Arrays, device: str) -> dict[str, Any]:
    """Return the arguments of PyTorch's attention function, except q, k and v.

    PyTorch's own causal mask aligns the first query with the first key. It is used only if the numbers of queries and
    keys are equal, and the problem has no window, no ragged lengths and no ALiBi. Otherwise, a mask is passed that
    aligns the last query with the last key.

    Raises:
        ValueError: the problem caps scores, which PyTorch's function does not support.
    """
    import torch

    if problem.get("softcap"):
        raise ValueError("PyTorch's attention function does not support a score cap (softcap)")

    terms: dict[str, Any] = {} if _kv_heads(problem) == problem["H"] else {"enable_gqa": True}
    hidden = _hidden_keys(problem, inputs)
    bias = _bias(problem, inputs, np.float32)
    if bias is not None:
        mask = -bias[None] if hidden is None else np.where(hidden, -np.inf, -bias)
        like = torch.float32 if problem["dtype"] == "float32" else getattr(torch, problem["dtype"])
        return {**terms, "attn_mask": torch.from_numpy(mask).to(device, like)}
    plain = _keys(problem) == problem["S"] and not problem.get("window") and not _ragged(problem)
    if hidden is None or plain:
        return {**terms, "is_causal": problem["causal"]}
    return {**terms, "attn_mask": torch.from_numpy(~hidden).to(device)}


def _hidden_keys(problem: Mapping[str, Any], inputs: Arrays) -> Array | None:
    """Return a mask (1 or B, 1, S, S_KV) that is True where a query must not attend; None if nothing is masked."""
    hidden: Array | None = None
    keys, window = np.arange(_keys(problem)), problem.get("window", 0)
    if problem["causal"]:
        last = np.arange(problem["S"])[:, None] + len(keys) - problem["S"]
        hidden = (keys > last)[None, None]
        if window:
            hidden = hidden | (keys <= last - window)
    if _ragged(problem):
        beyond = np.broadcast_to(
            keys >= inputs["lengths"][:, None, None, None], (problem["B"], 1, problem["S"], len(keys))
        )
        hidden = beyond if hidden is None else hidden | beyond
        if window:  # padding rows may attend to no key, so they attend to all; their results are not used
            hidden = hidden & ~hidden.all(axis=-1, keepdims=True)
    return hidden
