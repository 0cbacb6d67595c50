"""GPU baselines from other libraries, for a family's ``reference.py``.

If a library is not installed, the reason is reported in place of the baseline's time.

| library | families | source of the interface |
|---|---|---|
| FlashAttention 2, 3 | sdpa, sdpa_decode | flash_attn, flash_attn_interface |
| FlashAttention 4 | sdpa | flash_attn.cute |
| FlashInfer | sdpa, sdpa_decode, rmsnorm, swiglu | docs.flashinfer.ai |
| Liger | rmsnorm, layernorm, softmax, swiglu | liger_kernel.transformers.functional |
| Quack | rmsnorm, softmax, cross_entropy | README of Quack |
| DeepGEMM | gemm in bfloat16 | README of DeepGEMM |
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from evo.reference import Arrays
from evo.reference.torch_baselines import tensor_of, torch_on_gpu

Problem: TypeAlias = Mapping[str, Any]
Tensors: TypeAlias = Mapping[str, Any]
Timed: TypeAlias = Callable[[], object]

EPSILON = 1e-6
PAGE = 16
"""Number of tokens per page of the key-value cache from which FlashInfer decodes."""

WORKSPACE_BYTES = 128 << 20


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A library's implementation of a family.

    Attributes:
        name: name of the baseline.
        family: name of the family.
        module: name of the module to import.
        call: prepares a call. It receives the imported module, the problem and the inputs (GPU tensors), and returns
            the function to time. It raises ValueError if the library does not support the problem.
    """

    name: str
    family: str
    module: str
    call: Callable[[Any, Problem, Tensors], Timed]


def rivals(family: str, problem: Problem) -> dict[str, Callable[[Arrays], Timed]]:
    """Return the functions that prepare a family's baselines, by the baseline's name; see `_prepared`."""
    return {each.name: partial(_prepared, each, problem) for each in RIVALS if each.family == family}


def _prepared(rival: Rival, problem: Problem, inputs: Arrays) -> Timed:
    """Return a function that runs a library's kernel on these inputs, which are copied to the GPU first.

    Raises:
        ImportError: the library or PyTorch is not installed, or PyTorch finds no GPU.
        ValueError: the library does not support the problem.
    """
    module = importlib.import_module(rival.module)
    return rival.call(module, problem, {name: on_gpu(array, problem["dtype"]) for name, array in inputs.items()})


def on_gpu(array: Any, dtype: str) -> Any:
    """Return an input array as a tensor on the GPU. Elements of 16 bits are read as numbers of `dtype`."""
    torch_on_gpu()
    # 4-byte inputs are lengths: integers, which keep their type
    return tensor_of(array, dtype if array.dtype.itemsize == 2 else "").cuda()


def _flash_attention(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    q, k, v = _by_tokens(problem, tensors)
    window = problem.get("window", 0)
    terms: dict[str, Any] = {"window_size": (window - 1, 0)} if window else {}
    terms |= {"softcap": problem["softcap"]} if problem.get("softcap") else {}
    return partial(module.flash_attn_func, q, k, v, causal=bool(problem["causal"]), **terms)


def _flash_decoding(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    q, k, v = _by_tokens(problem, tensors)
    return partial(module.flash_attn_with_kvcache, q, k, v, causal=bool(problem["causal"]))


def _flashinfer_attention(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    import torch

    q, k, v = _by_tokens(problem, tensors)
    wrapper = module.BatchPrefillWithRaggedKVCacheWrapper(_workspace(q), "NHD")
    starts = [torch.arange(each.shape[0] + 1, dtype=torch.int32, device=q.device) * each.shape[1] for each in (q, k)]
    wrapper.plan(
        *starts,
        num_qo_heads=q.shape[2],
        num_kv_heads=k.shape[2],
        head_dim_qk=q.shape[3],
        causal=bool(problem["causal"]),
        window_left=problem.get("window", 0) - 1,
        logits_soft_cap=problem.get("softcap") or None,
        q_data_type=q.dtype,
    )
    return partial(wrapper.run, *(each.reshape(-1, *each.shape[2:]) for each in (q, k, v)))


def _flashinfer_decoding(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    import torch

    q, k, v = _by_tokens(problem, tensors)
    if q.shape[1] != 1:
        raise ValueError("decodes only one query per sequence")
    batch, length = k.shape[:2]
    pages = -(-length // PAGE)
    caches = tuple(_paged(each, pages) for each in (k, v))
    numbers = torch.arange(batch + 1, dtype=torch.int32, device=q.device)
    wrapper = module.BatchDecodeWithPagedKVCacheWrapper(_workspace(q), "NHD")
    wrapper.plan(
        numbers * pages,
        torch.arange(batch * pages, dtype=torch.int32, device=q.device),
        torch.full_like(numbers[1:], length - (pages - 1) * PAGE),
        q.shape[2],
        k.shape[2],
        q.shape[3],
        PAGE,
        q_data_type=q.dtype,
        kv_data_type=k.dtype,
    )
    return partial(wrapper.run, q[:, 0].contiguous(), caches)


def _paged(cache: Any, pages: int) -> Any:
    """Divide keys or values (B, S, KV, D) into pages (B * pages, PAGE, KV, D), padded with zeros."""
    batch, length, *rest = cache.shape
    padded = cache.new_zeros((batch, pages * PAGE, *rest))
    padded[:, :length] = cache
    return padded.view(batch * pages, PAGE, *rest)


def _workspace(like: Any) -> Any:
    import torch

    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=like.device)


def _flashinfer_rmsnorm(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    if problem["residual"]:
        raise ValueError("overwrites the residual input with the sum, so repeated calls would give different results")
    return partial(module.norm.rmsnorm, tensors["x"], tensors["weight"], eps=EPSILON)


def _flashinfer_swiglu(module: Any, _problem: Problem, tensors: Tensors) -> Timed:
    import torch

    return partial(module.activation.silu_and_mul, torch.cat([tensors["gate"], tensors["up"]], dim=-1))


def _liger_rmsnorm(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    x, weight = tensors["x"], tensors["weight"]
    if problem["residual"]:
        return partial(module.liger_fused_add_rms_norm, x, tensors["residual"], weight, EPSILON, in_place=False)
    return partial(module.liger_rms_norm, x, weight, EPSILON, in_place=False)


def _liger_layernorm(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    if problem["residual"]:
        raise ValueError("does not support LayerNorm of a sum")
    return partial(module.liger_layer_norm, tensors["x"], tensors["weight"], tensors["bias"], 1e-5)


def _quack_rmsnorm(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    terms = {"residual": tensors["residual"], "prenorm": True} if problem["residual"] else {}
    return partial(module.rmsnorm, tensors["x"], tensors["weight"], eps=EPSILON, **terms)


def _quack_cross_entropy(module: Any, _problem: Problem, tensors: Tensors) -> Timed:
    return partial(module.cross_entropy, tensors["x"], tensors["target"].long(), reduction="none")


def _deep_gemm(module: Any, problem: Problem, tensors: Tensors) -> Timed:
    if problem["dtype"] != "bfloat16" or problem["epilogue"] != "none":
        raise ValueError("supports only bfloat16 without an epilogue")
    a, b = tensors["a"], tensors["b"]
    if problem.get("batch", 1) > 1 or a.shape[1] != problem["K"] or b.numel() != problem["N"] * problem["K"]:
        raise ValueError("is compared only for unbatched matrices with contiguous rows")
    b = b if problem["b_layout"] == "nk" else b.T.contiguous()
    out = a.new_empty((a.shape[0], b.shape[0]))

    def call() -> object:
        module.bf16_gemm_nt(a, b, out)
        return out

    return call


def _by_tokens(problem: Problem, tensors: Tensors) -> tuple[Any, Any, Any]:
    """Return q, k and v with shape (B, S, H, D).

    Raises:
        ValueError: at least one of the attention libraries does not support the problem's dtype, layout or options.
    """
    if problem["dtype"] == "float32":
        raise ValueError("supports only 16-bit dtypes")
    layout = problem.get("layout", "bhsd")
    if layout not in ("bhsd", "bshd") or not {"q", "k", "v"} == tensors.keys():
        raise ValueError("is compared only for the layouts bhsd and bshd, and only if the inputs are q, k and v")
    q, k, v = (tensors[name] for name in ("q", "k", "v"))
    if layout == "bshd":
        return q, k, v
    return q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)


_LIGER = "liger_kernel.transformers.functional"

RIVALS = (
    Rival(name="flash-attention-2", family="sdpa", module="flash_attn", call=_flash_attention),
    Rival(name="flash-attention-3", family="sdpa", module="flash_attn_interface", call=_flash_attention),
    Rival(name="flash-attention-4", family="sdpa", module="flash_attn.cute", call=_flash_attention),
    Rival(name="flashinfer", family="sdpa", module="flashinfer", call=_flashinfer_attention),
    Rival(name="flash-attention-2", family="sdpa_decode", module="flash_attn", call=_flash_decoding),
    Rival(name="flash-attention-3", family="sdpa_decode", module="flash_attn_interface", call=_flash_decoding),
    Rival(name="flashinfer", family="sdpa_decode", module="flashinfer", call=_flashinfer_decoding),
    Rival(name="flashinfer", family="rmsnorm", module="flashinfer", call=_flashinfer_rmsnorm),
    Rival(name="liger", family="rmsnorm", module=_LIGER, call=_liger_rmsnorm),
    Rival(name="quack", family="rmsnorm", module="quack", call=_quack_rmsnorm),
    Rival(name="liger", family="layernorm", module=_LIGER, call=_liger_layernorm),
    Rival(name="liger", family="softmax", module=_LIGER, call=lambda m, _, t: partial(m.liger_softmax, t["x"])),
    Rival(name="quack", family="softmax", module="quack", call=lambda m, _, t: partial(m.softmax, t["x"])),
    Rival(name="quack", family="cross_entropy", module="quack", call=_quack_cross_entropy),
    Rival(name="flashinfer", family="swiglu", module="flashinfer", call=_flashinfer_swiglu),
    Rival(
        name="liger",
        family="swiglu",
        module=_LIGER,
        call=lambda m, _, t: partial(m.liger_swiglu, t["gate"], t["up"]),
    ),
    Rival(name="deep-gemm", family="gemm", module="deep_gemm", call=_deep_gemm),
)
