"""Inputs, reference, yardstick and baselines for attention on E4M3 inputs. Only runners execute this file."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded
from evo.reference.heads import draw_heads
from evo.reference.library import computing
from evo.reference.pieces import usable_cores
from evo.reference.torch_baselines import torch_on_cpu, torch_on_gpu

Timed = Callable[[Arrays], Callable[[], object]]

E4M3 = "float8_e4m3"
LARGEST = 448.0
LEAST_DEVIATION = 0.05
HEADROOM = 2**13
SCORES_BYTES = 1 << 30
"""Maximum size in bytes of the score matrices and their temporaries. It limits the number of heads that are computed in
parallel."""


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw `q`, `k` and `v` with `draw_heads`, and quantise them to codes (B, H, S, D) and scales (B, H).

    The scale of a head maps its largest magnitude to 448, the largest E4M3 number.

    Args:
        distribution: a distribution of `draw_heads`, or ``zeros``. With ``zeros``, `q` of the first head and `k` of the
            last head are zero with the scale 0, so that all keys of these heads have equal weights. With ``small``, the
            scale of `v` is larger than needed, as in static quantisation, so that the codes of `v` are subnormal.
    """
    shape = tuple(problem[name] for name in ("B", "H", "S", "D"))
    drawn = draw_heads(rng, dict.fromkeys("qkv", shape), distribution, least_deviation=LEAST_DEVIATION)
    if distribution == "zeros":
        drawn["q"][0, 0] = drawn["k"][-1, -1] = 0.0
    scales = {name: np.abs(array).max(axis=(2, 3)) / np.float32(LARGEST) for name, array in drawn.items()}
    if distribution == "small":
        scales["v"] *= np.float32(HEADROOM)
    codes = {name: encoded(array / _divisor(scales[name]), E4M3) for name, array in drawn.items()}
    if problem["v_layout"] == "columns":
        codes["v"] = np.ascontiguousarray(codes["v"].swapaxes(-1, -2))
    return codes | {f"{name}_scale": scale for name, scale in scales.items()}


def _divisor(scale: Array) -> Array:
    """Return each head's scale in a shape that broadcasts. The scale 0 of a head of zeros is replaced by 1."""
    return np.where(scale > 0, scale, np.float32(1))[..., None, None]


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected output, computed in float64 from the codes and scales."""
    return {"out": _attention(problem, inputs, np.float64)}


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the result in float16, computed in float32 with weights rounded as the problem permits.

    If the accuracy is ``coarse``, the weights times 256 are rounded to 4 significant bits, as in E4M3. If it is
    ``fine``, they are rounded to 8 significant bits, as in bfloat16. Kernel errors are compared with the error of this
    result.
    """
    bits, least = (4, -5) if problem["accuracy"] == "coarse" else (8, -126)
    return {"out": _attention(problem, inputs, np.float32, partial(_rounded, bits, least)).astype(np.float16)}


def baselines(problem: Mapping[str, Any]) -> dict[str, Timed]:
    """Return CPU baselines by name. The timed calls include the dequantisation."""
    return {"numpy": partial(_with_numpy, problem), "torch": partial(_with_torch, problem)}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Timed]:
    """Return GPU baselines by name.

    PyTorch has no attention on E4M3 inputs. ``torch-dequantise-NAME`` converts the codes to FP16 and calls the backend
    NAME; conversion and call are timed. ``torch-fp16-NAME`` gets inputs that were converted to FP16 before the timing.
    ``naive`` is the kernel in ``naive.cu``.
    """
    backends = ("flash", "cudnn", "efficient")
    both = {"torch-dequantise": True, "torch-fp16": False}
    on_torch = {
        f"{kind}-{name}": partial(_on_torch, problem, name, timed) for kind, timed in both.items() for name in backends
    }
    return {**on_torch, "naive": partial(_naive, problem)}


def _with_numpy(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    later = _later_keys(problem)

    def call() -> object:
        q, k, v = (_numbers(problem, inputs, name, ...) for name in ("q", "k", "v"))
        scores = q @ k.swapaxes(-1, -2) * np.float32(problem["D"] ** -0.5)
        if later is not None:
            scores[..., later] = -np.inf
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (weights @ v / weights.sum(axis=-1, keepdims=True)).astype(np.float16)

    return call


def _with_torch(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    torch = torch_on_cpu()
    codes = {name: torch.from_numpy(array) for name, array in inputs.items()}
    attention = torch.nn.functional.scaled_dot_product_attention

    def call() -> object:
        q, k, v = (_dequantised(problem, codes, name, torch.float32) for name in ("q", "k", "v"))
        return attention(q, k, v, is_causal=problem["causal"]).half()

    return call


def _on_torch(problem: Mapping[str, Any], backend: str, timed: bool, inputs: Arrays) -> Callable[[], object]:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    torch = torch_on_gpu()
    chosen = getattr(SDPBackend, f"{backend.upper()}_ATTENTION")
    codes = {name: torch.from_numpy(array).cuda() for name, array in inputs.items()}

    def halves() -> Any:
        return [_dequantised(problem, codes, name, torch.float16) for name in ("q", "k", "v")]

    ready = halves()

    def call() -> object:
        with sdpa_kernel(chosen):
            q, k, v = halves() if timed else ready
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=problem["causal"])

    return call


def _dequantised(problem: Mapping[str, Any], codes: Mapping[str, Any], name: str, dtype: Any) -> Any:
    """Return an input, dequantised to `dtype`, as a tensor of shape (B, H, S, D)."""
    import torch

    numbers = codes[name].view(torch.float8_e4m3fn).to(dtype) * codes[f"{name}_scale"].to(dtype)[..., None, None]
    return numbers.transpose(-1, -2).contiguous() if name == "v" and problem["v_layout"] == "columns" else numbers


def _naive(problem: Mapping[str, Any], inputs: Arrays) -> Callable[[], object]:
    import cupy

    macros = {name: problem[name] for name in ("S", "D")}
    macros |= {"CAUSAL": int(problem["causal"]), "SCALE": f"{problem['D'] ** -0.5}f"}
    macros |= {"V_TRANSPOSED": int(problem["v_layout"] == "columns")}
    source = Path(__file__).with_name("naive.cu").read_text()
    kernel = cupy.RawKernel(source, "attention", tuple(f"-D{name}={value}" for name, value in macros.items()))
    given = [cupy.asarray(inputs[name]) for name in ("q", "k", "v", "q_scale", "k_scale", "v_scale")]
    out = cupy.empty(inputs["q"].shape, cupy.float16)
    blocks, scores_bytes = problem["B"] * problem["H"] * problem["S"], 4 * problem["S"]
    kernel.max_dynamic_shared_size_bytes = scores_bytes

    def call() -> object:
        kernel((blocks,), (128,), (*given, out), shared_mem=scores_bytes)
        return out

    return call


def _attention(problem: Mapping[str, Any], inputs: Arrays, dtype: Any, rounded: Any = None) -> Array:
    """Return the result of attention, computed on all cores or on a GPU.

    Args:
        dtype: NumPy dtype in which the result is computed.
        rounded: function that rounds the weights, multiplied by 256, before they are multiplied by `v`. The result is
            divided by the sum of the unrounded weights. If None, the weights are not rounded.
    """
    with computing(4.0 * problem["B"] * problem["H"] * problem["S"] ** 2 * problem["D"]) as library:
        return _head_by_head(library, problem, inputs, dtype, rounded)


def _head_by_head(library: Any, problem: Mapping[str, Any], inputs: Arrays, dtype: Any, rounded: Any) -> Array:
    out = np.empty(inputs["q"].shape, dtype)
    later = _later_keys(problem)
    hidden = None if later is None else library.asarray(later)

    def compute(head: tuple[int, ...]) -> None:
        q, k, v = (library.asarray(_numbers(problem, inputs, name, head)).astype(dtype) for name in ("q", "k", "v"))
        scores = q @ k.T * out.dtype.type(problem["D"] ** -0.5)
        if hidden is not None:
            scores[hidden] = -np.inf
        weights = 256 * library.exp(scores - scores.max(axis=-1, keepdims=True))
        used = weights if rounded is None else rounded(library, weights)
        result = used @ v / weights.sum(axis=-1, keepdims=True)
        out[head] = result if library is np else result.get()

    affordable = SCORES_BYTES // (4 * problem["S"] ** 2 * out.itemsize)
    threads = min(usable_cores(), affordable) if library is np else 1
    with ThreadPoolExecutor(max(1, threads)) as pool:
        list(pool.map(compute, np.ndindex(out.shape[:2])))
    return out


def _numbers(problem: Mapping[str, Any], inputs: Arrays, name: str, head: Any) -> Array:
    """Return the dequantised numbers of an input.

    The result has shape (S, D) and dtype float64 for one head, or (B, H, S, D) and float32 for all heads.
    """
    scale = np.asarray(inputs[f"{name}_scale"][head])[..., None, None]
    numbers: Array = decoded(inputs[name][head], E4M3).astype(np.float32 if head is ... else np.float64) * scale
    return numbers.swapaxes(-1, -2) if name == "v" and problem["v_layout"] == "columns" else numbers


def _rounded(bits: int, least: int, library: Any, values: Array) -> Array:
    """Return values rounded to `bits` significant bits.

    Values with an exponent (``frexp``) below `least` get fewer bits.
    """
    _, exponent = library.frexp(values)
    step = library.ldexp(values.dtype.type(1), library.maximum(exponent, least) - bits)
    rounded: Array = library.rint(values / step) * step
    return rounded


def _later_keys(problem: Mapping[str, Any]) -> Array | None:
    """Return a mask (S, S) that is True where a query must not attend; None if every query attends to all keys."""
    return np.triu(np.ones((problem["S"], problem["S"]), bool), 1) if problem["causal"] else None
