"""Attention: over whole sequences, for a single query, and on views of a joint projection of q, k and v."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from . import operators
from .serving import Call, Operation, Terms, Unserved, compiling, dtype_name, lies_by_tokens
from .table import TABLE

_attention = nnf.scaled_dot_product_attention
"""PyTorch's own function, which `patch` replaces."""


def scaled_dot_product_attention(  # noqa: PLR0917 — the signature is PyTorch's
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return attention, like `torch.nn.functional.scaled_dot_product_attention`.

    Kernels support neither masks nor dropout, and read queries only in two memory layouts: contiguous, or (B, S, H, D)
    as written by a model's projection. PyTorch computes all other calls. Keys and values are copied if their layout
    differs from that of the queries. The output has the layout of the queries.

    If q, k and v are views of one joint projection, and a kernel for the projection's layout exists, this kernel reads
    the projection without a copy. The output then has the memory layout (B, S, H, D).
    """
    inputs = (query, key, value)

    terms = (attn_mask is not None or dropout_p > 0.0, is_causal, scale, enable_gqa)
    found: Sequence[torch.Tensor] | None = None
    if compiling():
        if _unsupported_reason(inputs, terms) is None:
            family = "sdpa_decode" if _decodes(query, key) else "sdpa"
            op = operators.traced("attention", family, inputs, D=query.shape[-1])
            found = None if op is None else (op(query, key, value, is_causal, enable_gqa),)
    else:
        found = _ATTENTION.outputs(inputs, terms)
    if found is not None:
        return found[0]
    return _attention(query, key, value, attn_mask, dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)


def _attention_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    query, key, value = inputs
    causal = terms[1]
    if (reason := _unsupported_reason(inputs, terms)) is not None:
        return Unserved({"query": str(tuple(query.shape))}, reason)
    kept = True
    if (one := _strides_of_one(inputs)) is not None:
        layout, offsets = one
        family, problem = _attention_problem(query, key, causal=causal, layout=layout)
        if family == "sdpa" and TABLE.has(family, query.device, problem):
            if _offsets(inputs) == offsets:
                return Call(
                    problem=problem, results=((tuple(query.shape), _strides_by_tokens(query)),), offsets=offsets
                )
            kept = False  # in a later call, tensors with these strides may be views of one tensor
    by_tokens = lies_by_tokens(query)
    family, problem = _attention_problem(query, key, causal=causal, layout="bshd" if by_tokens else "")
    uncontiguous = [
        index
        for index, each in ((1, key), (2, value))
        if not (each.transpose(1, 2) if by_tokens else each).is_contiguous()
    ]
    return Call(
        family=family,
        problem=problem,
        results=((tuple(query.shape), query.stride() if by_tokens else None),),
        by_tokens=by_tokens,
        convert=dict.fromkeys(uncontiguous, _by_tokens if by_tokens else torch.Tensor.contiguous),
        copies=bool(uncontiguous),
        kept=kept,
    )


def _by_tokens(heads: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor of shape (B, H, S, D) with the memory layout (B, S, H, D)."""
    return heads.transpose(1, 2).contiguous().transpose(1, 2)


_ATTENTION = Operation(
    name="scaled_dot_product_attention",
    arguments=("query", "key", "value"),
    family="sdpa",
    plain=lambda terms, *inputs: _attention(*inputs, is_causal=terms[1], scale=terms[2], enable_gqa=terms[3]),
    describe=_attention_call,
)


def _unsupported_reason(inputs: tuple[torch.Tensor, ...], terms: Terms) -> str | None:  # noqa: PLR0911
    """Return the reason why no kernel can compute this attention call; None if a kernel may compute it."""
    masked, causal, scale, grouped = terms
    query, key, value = inputs
    if masked:
        return "it has a mask or dropout"
    if query.ndim != 4 or key.ndim != 4 or key.shape != value.shape:
        return "a tensor does not have four dimensions, or keys and values have different shapes"
    if scale is not None and abs(scale * query.shape[-1] ** 0.5 - 1.0) > 1e-6:
        return "the scale is not 1 / sqrt(D)"
    if query.shape[1] != key.shape[1] and not (grouped and query.shape[1] % key.shape[1] == 0):
        return "q and k have different numbers of heads, but enable_gqa is not set"
    if query.shape[::3] != key.shape[::3] or not query.numel() or not key.numel():
        return "queries and keys differ in batch size or head dimension, or a tensor has no elements"
    if causal and query.shape[2] != key.shape[2]:
        return (
            "is_causal=True with different numbers of queries and keys: PyTorch's causal mask is aligned to the top "
            "left, that of the kernels to the bottom right"
        )
    return None


def _decodes(query: torch.Tensor, key: torch.Tensor) -> bool:
    return bool(query.shape[2] == 1 and key.shape[2] > 1)


def _attention_problem(
    query: torch.Tensor, key: torch.Tensor, *, causal: bool, layout: str
) -> tuple[str, dict[str, Any]]:
    batch, heads, length, size = query.shape
    laid_out = {"layout": layout} if layout else {}
    problem = {"B": batch, "H": heads, "S": key.shape[2], "D": size, "dtype": dtype_name(query.dtype), "causal": causal}
    if _decodes(query, key):
        return "sdpa_decode", {**problem, "KV": key.shape[1], "Q": length, **laid_out}
    kv_heads = 0 if key.shape[1] == heads else key.shape[1]
    keys = 0 if key.shape[2] == length else key.shape[2]
    return "sdpa", {**problem, "KV": kv_heads, "S": length, "S_KV": keys, **laid_out}


def _strides_of_one(inputs: tuple[torch.Tensor, ...]) -> tuple[str, tuple[int, ...]] | None:
    """Match the strides of q, k and v to a joint projection.

    q, k and v have shape (B, heads, S, D). The projection has one of two layouts: `qkv` has shape (B, S, H + 2 KV, D)
    with all H heads of q first, then the KV heads of k and of v. `qkv_heads` has shape (B, S, H, 3, D).

    Returns:
        The layout of the projection, and the byte offset of each of q, k and v from q. None if the strides match
        neither layout.
    """
    query, key, _ = inputs
    _, heads, length, size = query.shape
    row, kv_heads = (heads + 2 * key.shape[1]) * size, key.shape[1]
    for layout, step, distances in (
        ("qkv", size, (0, heads * size, (heads + kv_heads) * size)),
        ("qkv_heads", 3 * size, (0, size, 2 * size)),
    ):
        strides = (length * row, step, row, 1)
        alike = all(
            each.shape[2] == length
            and all(n == 1 or a == b for n, a, b in zip(each.shape, each.stride(), strides, strict=True))
            for each in inputs
        )
        if alike and (layout == "qkv" or kv_heads == heads):
            return layout, tuple(distance * query.element_size() for distance in distances)
    return None


def _offsets(inputs: tuple[torch.Tensor, ...]) -> tuple[int, ...] | None:
    """Return the byte offset of each tensor from the first one; None if the tensors do not share one storage."""
    try:
        storages = {each.untyped_storage().data_ptr() for each in inputs}
        return tuple(each.data_ptr() - inputs[0].data_ptr() for each in inputs) if len(storages) == 1 else None
    except (RuntimeError, NotImplementedError):
        return None


def _strides_by_tokens(like: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of a tensor of shape (B, H, S, D) with the memory layout (B, S, H, D)."""
    _, heads, length, size = like.shape
    return (length * heads * size, size, heads * size, 1)


def _attention_operator(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, grouped: bool) -> torch.Tensor:
    out = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    return operators.with_strides_like(q, out)


operators.register(
    "attention",
    "(Tensor q, Tensor k, Tensor v, bool causal, bool grouped) -> Tensor",
    _attention_operator,
    lambda q, k, v, causal, grouped: torch.empty_like(q),
)
