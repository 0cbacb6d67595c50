"""Functions with the signatures of `torch.nn.functional`: run by a kernel if there is one, else by PyTorch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from . import operators
from .serving import Call, Operation, Terms, Unserved
from .table import TABLE

_attention = nnf.scaled_dot_product_attention
"""PyTorch's own function, which `patch` replaces."""

_compiling = torch.compiler.is_compiling


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """Return RMSNorm over the last dimension, as `torch.nn.functional.rms_norm`."""
    if _compiling():
        return _traced_rms_norm(input, normalized_shape, weight, eps)
    found = _RMS_NORM.outputs((input, weight), (tuple(normalized_shape), eps))
    return nnf.rms_norm(input, normalized_shape, weight, eps) if found is None else found[0]


def _rms_norm_call(inputs: tuple[torch.Tensor, torch.Tensor | None], terms: Terms) -> Call | Unserved:
    (input, weight), (shape, eps) = inputs, terms
    if weight is None or len(shape) != 1:
        return Unserved({"cols": shape[-1] if shape else 0}, "no weight, or more than one dimension")
    return _norm_call(input, shape[0], _epsilon(input, eps))


_RMS_NORM = Operation(
    name="rms_norm",
    arguments=("input", "weight"),
    family="rmsnorm",
    plain=lambda terms, input, weight: nnf.rms_norm(input, terms[0], weight, terms[1]),
    describe=_rms_norm_call,
)


def _traced_rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None, eps: float | None
) -> torch.Tensor:
    if weight is not None and len(normalized_shape) == 1:
        op = operators.traced("rms_norm", "rmsnorm", (input, weight), cols=normalized_shape[0])
        if op is not None:
            return op(input, weight, _epsilon(input, eps))
    return nnf.rms_norm(input, normalized_shape, weight, eps)


def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input + residual, and its RMSNorm over the last dimension."""
    return _added(_ADD_RMS_NORM, (input, residual, weight), eps)


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Return LayerNorm over the last dimension, as `torch.nn.functional.layer_norm`."""
    if _compiling():
        return _traced_layer_norm(input, normalized_shape, weight, bias, eps)
    found = _LAYER_NORM.outputs((input, weight, bias), (tuple(normalized_shape), eps))
    return nnf.layer_norm(input, normalized_shape, weight, bias, eps) if found is None else found[0]


def _layer_norm_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    (input, weight, bias), (shape, eps) = inputs, terms
    if weight is None or bias is None or len(shape) != 1:
        return Unserved({"cols": shape[-1] if shape else 0}, "no weight, no bias, or more than one dimension")
    return _norm_call(input, shape[0], eps)


_LAYER_NORM = Operation(
    name="layer_norm",
    arguments=("input", "weight", "bias"),
    family="layernorm",
    plain=lambda terms, input, weight, bias: nnf.layer_norm(input, terms[0], weight, bias, terms[1]),
    describe=_layer_norm_call,
)


def _traced_layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    if weight is not None and bias is not None and len(normalized_shape) == 1:
        op = operators.traced("layer_norm", "layernorm", (input, weight, bias), cols=normalized_shape[0])
        if op is not None:
            return op(input, weight, bias, eps)
    return nnf.layer_norm(input, normalized_shape, weight, bias, eps)


def add_layer_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input + residual, and its LayerNorm over the last dimension."""
    return _added(_ADD_LAYER_NORM, (input, residual, weight, bias), eps)


def _added(operation: Operation, inputs: tuple[torch.Tensor, ...], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    found = None if _compiling() else operation.outputs(inputs, (eps,))
    total, out = operation.plain((eps,), *inputs) if found is None else found
    return total, out


def _added_by_torch(
    terms: Terms, input: torch.Tensor, residual: torch.Tensor, *weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    total, norm = input + residual, nnf.rms_norm if len(weights) == 1 else nnf.layer_norm
    return total, norm(total, [weights[0].numel()], *weights, *terms)


def _added_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    input, residual, weight = inputs[:3]
    if input.shape != residual.shape:
        return Unserved({"cols": weight.numel()}, "a residual of another shape")
    return _norm_call(input, weight.numel(), terms[0], residual=True)


def _norm_call(input: torch.Tensor, cols: int, eps: float, *, residual: bool = False) -> Call:
    return Call(
        problem=_rows(input, cols) | {"residual": residual},
        results=((tuple(input.shape), None),) * (2 if residual else 1),
        scalars={"epsilon": eps},
    )


_ADD_RMS_NORM = Operation(
    name="add_rms_norm",
    arguments=("input", "residual", "weight"),
    family="rmsnorm",
    plain=_added_by_torch,
    describe=_added_call,
)
_ADD_LAYER_NORM = Operation(
    name="add_layer_norm",
    arguments=("input", "residual", "weight", "bias"),
    family="layernorm",
    plain=_added_by_torch,
    describe=_added_call,
)


def softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return softmax over one dimension, as `torch.nn.functional.softmax`; kernels support the last dimension."""
    if _compiling():
        op = None
        if not _elsewhere(input, dim) and dtype in (None, input.dtype):
            op = operators.traced("softmax", "softmax", (input,), cols=input.shape[-1])
        return nnf.softmax(input, dim, _stacklevel, dtype) if op is None else op(input)
    found = _SOFTMAX.outputs((input,), (dim, dtype))
    return nnf.softmax(input, dim, _stacklevel, dtype) if found is None else found[0]


def _elsewhere(input: torch.Tensor, dim: int | None) -> bool:
    """Return True if `dim` is not the last dimension."""
    rank = input.ndim
    return dim is None or rank == 0 or not -rank <= dim < rank or dim % rank != rank - 1


def _softmax_call(inputs: tuple[torch.Tensor], terms: Terms) -> Call | Unserved:
    (input,), (dim, dtype) = inputs, terms
    if _elsewhere(input, dim) or dtype not in (None, input.dtype):
        return Unserved({"dim": str(dim)}, "another dimension than the last, or a dtype")
    return _row_call(input)


_SOFTMAX = Operation(
    name="softmax",
    arguments=("input",),
    family="softmax",
    plain=lambda _, input: nnf.softmax(input, -1),
    describe=_softmax_call,
)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return ``torch.nn.functional.silu(gate) * up``, for tensors of the same shape."""
    if _compiling():
        op = None
        if gate.shape == up.shape and gate.ndim:
            op = operators.traced("swiglu", "swiglu", (gate, up), cols=gate.shape[-1])
        return nnf.silu(gate) * up if op is None else op(gate, up)
    found = _SWIGLU.outputs((gate, up))
    return nnf.silu(gate) * up if found is None else found[0]


def _swiglu_call(inputs: tuple[torch.Tensor, torch.Tensor], _: Terms) -> Call | Unserved:
    gate, up = inputs
    if gate.shape != up.shape or not gate.ndim:
        return Unserved({"shape": str(tuple(gate.shape))}, "tensors of several shapes")
    return _row_call(gate)


def _row_call(input: torch.Tensor) -> Call:
    return Call(problem=_rows(input, input.shape[-1]), results=((tuple(input.shape), None),))


_SWIGLU = Operation(
    name="swiglu",
    arguments=("gate", "up"),
    family="swiglu",
    plain=lambda _, gate, up: nnf.silu(gate) * up,
    describe=_swiglu_call,
)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return the product with the transposed weight, plus a bias, as `torch.nn.functional.linear`."""
    inputs = (input, weight) if bias is None else (input, weight, bias)
    if _compiling():
        op = None
        if weight.ndim == 2:
            op = operators.traced("linear", "gemm", inputs, N=weight.shape[0], K=weight.shape[1])
        return nnf.linear(input, weight, bias) if op is None else op(input, weight, bias)
    found = _LINEAR.outputs(inputs)
    return nnf.linear(input, weight, bias) if found is None else found[0]


def _linear_call(inputs: tuple[torch.Tensor, ...], _: Terms) -> Call | Unserved:
    input, weight, *bias = inputs
    if weight.ndim != 2 or input.ndim == 0:
        return Unserved({"dimensions": weight.ndim}, "the weight is no matrix")
    n, k = weight.shape
    if input.shape[-1] != k or any(each.shape != (n,) for each in bias):
        return Unserved({"N": n, "K": k}, "shapes that do not match, or a bias of another")
    problem = {"M": input.numel() // k if k else 0, "N": n, "K": k, "b_layout": "nk", "dtype": dtype_name(input.dtype)}
    return Call(
        problem=problem | {"epilogue": "bias" if bias else "none"},
        results=(((*input.shape[:-1], n), None),),
        unread=() if bias else (_nothing(input),),
    )


_LINEAR = Operation(
    name="linear",
    arguments=("input", "weight", "bias"),
    family="gemm",
    plain=lambda _, *inputs: nnf.linear(*inputs),
    describe=_linear_call,
)


def cross_entropy(  # noqa: PLR0917 — the signature is PyTorch's
    input: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor:
    """Cross entropy of rows of logits, as `torch.nn.functional.cross_entropy`; for classes by number, and no gradients.

    Gradients are PyTorch's from its own forward pass: to recompute it would cost more than the kernel saves.
    """
    inputs = (input, target) if weight is None else (input, target, weight)
    terms = (size_average, ignore_index, reduce, reduction, label_smoothing)
    found: Sequence[torch.Tensor] | None = None
    if _compiling():
        if _unlike_classes(inputs, terms) is None:
            op = operators.traced("cross_entropy", "cross_entropy", inputs, cols=input.shape[1])
            found = None if op is None else (op(input, target, ignore_index),)
    elif not (torch.is_grad_enabled() and input.requires_grad):
        found = _CROSS_ENTROPY.outputs(inputs, terms)
    if found is None:
        return nnf.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)
    losses = found[0]
    if reduction == "mean":
        losses = losses.sum() / (target != ignore_index).sum()
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(input.dtype)


def _cross_entropy_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    input = inputs[0]
    if (reason := _unlike_classes(inputs, terms)) is not None:
        return Unserved({"input": str(tuple(input.shape))}, reason)
    return Call(
        problem=_rows(input, input.shape[1]),
        results=(((input.shape[0],), None),) * 2,
        convert={1: _int32},
        integers=(1,),
    )


def _unlike_classes(inputs: tuple[torch.Tensor, ...], terms: Terms) -> str | None:
    """Return why no kernel can serve such a cross entropy; None if one can."""
    input, target, *weight = inputs
    size_average, ignored, reduce, reduction, smoothing = terms
    if weight or smoothing:
        return "weights of classes or label smoothing"
    if input.ndim != 2 or target.shape != input.shape[:1] or target.dtype != torch.int64:
        return "input is no matrix, or target no class for each of its rows"
    if 0 <= ignored < input.shape[1]:
        return "an ignore_index that is a class"
    if size_average is not None or reduce is not None or reduction not in {"none", "mean", "sum"}:
        return "size_average or reduce, which PyTorch has deprecated, or an unknown reduction"
    return None


def _int32(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.to(torch.int32)


_CROSS_ENTROPY = Operation(
    name="cross_entropy",
    arguments=("input", "target", "weight"),
    family="cross_entropy",
    plain=lambda terms, input, target: nnf.cross_entropy(input, target, ignore_index=terms[1], reduction="none"),
    describe=_cross_entropy_call,
)


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary position embedding of queries and keys, as models of transformers define it.

    Args:
        q, k: (B, heads, S, D), or (B, S, heads, D) where `unsqueeze_dim` is 2; contiguous, or in memory as the other.
        cos, sin: (1, S, D) or (S, D), the same for every batch entry, whose second half repeats the first. Kernels read
            the first half alone.
    """
    found = rotated(q, k, cos, sin, unsqueeze_dim)
    return rotated_by_torch(q, k, cos, sin, unsqueeze_dim) if found is None else found


def rotated(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return what `apply_rotary_pos_emb` does, by a kernel; None if PyTorch must serve the call, which is counted."""
    inputs = (q, k, cos, sin)
    if _compiling():
        if _unlike_rotation(inputs, unsqueeze_dim) is not None:
            return None
        op = operators.traced("rotary", "rope", inputs, D=q.shape[3])
        return None if op is None else op(*inputs, unsqueeze_dim)
    found = _ROTARY.outputs(inputs, (unsqueeze_dim,))
    return None if found is None else (found[0], found[1])


def rotated_by_torch(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what `apply_rotary_pos_emb` does, by PyTorch's operations."""
    cosines, sines = (each.unsqueeze(unsqueeze_dim if each.ndim == 3 else unsqueeze_dim - 1) for each in (cos, sin))
    return q * cosines + _half_turned(q) * sines, k * cosines + _half_turned(k) * sines


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    """Return (-second half, first half) of the last dimension."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def _unlike_rotation(inputs: tuple[torch.Tensor, ...], unsqueeze_dim: int) -> str | None:
    """Return why no kernel could serve such a rotation; None if one could."""
    q, k, cos, sin = inputs
    if unsqueeze_dim not in (1, 2) or q.ndim != 4 or k.ndim != 4:
        return "queries and keys of another shape than (B, heads, S, D) or (B, S, heads, D)"
    heads_at, tokens_at = (1, 2) if unsqueeze_dim == 1 else (2, 1)
    unlike = any(q.shape[place] != k.shape[place] for place in (0, tokens_at, 3))
    if unlike or q.shape[3] % 2 or q.shape[heads_at] % max(1, k.shape[heads_at]) or not q.numel() or not k.numel():
        return "queries unlike keys, or no elements"
    table = (q.shape[tokens_at], q.shape[3])
    if any(each.shape not in (table, (1, *table)) for each in (cos, sin)):
        return "a table of cosines and sines for each batch entry, or of another size"
    return None


def _rotary_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    (q, k, *_), (unsqueeze_dim,) = inputs, terms
    if (reason := _unlike_rotation(inputs, unsqueeze_dim)) is not None:
        return Unserved({"q": str(tuple(q.shape))}, reason)
    by_tokens = _lies_by_tokens(q)
    heads_at, tokens_at = (1, 2) if unsqueeze_dim == 1 else (2, 1)
    problem = {"B": q.shape[0], "S": q.shape[tokens_at], "H": q.shape[heads_at], "D": q.shape[3]}
    problem |= {"KV": k.shape[heads_at] if k.shape[heads_at] != q.shape[heads_at] else 0, "dtype": dtype_name(q.dtype)}
    problem["layout"] = "bshd" if (heads_at == 2) != by_tokens else "bhsd"
    return Call(
        problem=problem,
        results=tuple((tuple(each.shape), each.stride() if by_tokens else None) for each in (q, k)),
        by_tokens=by_tokens,
    )


_ROTARY = Operation(
    name="apply_rotary_pos_emb",
    arguments=("q", "k", "cos", "sin"),
    family="rope",
    plain=lambda terms, *inputs: rotated_by_torch(*inputs, *terms),
    describe=_rotary_call,
)


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
    """Return attention, as `torch.nn.functional.scaled_dot_product_attention`; kernels support neither masks nor
    dropout.

    Queries are contiguous, or in the memory layout (B, S, H, D) of a model's projections; keys and values in another
    layout are copied. The output has the layout of the queries. Views of one projection for all three are read where
    they lie if there is a kernel for them; the output then lies in memory as (B, S, H, D).
    """
    inputs = (query, key, value)

    terms = (attn_mask is not None or dropout_p > 0.0, is_causal, scale, enable_gqa)
    found: Sequence[torch.Tensor] | None = None
    if _compiling():
        if _unlike_attention(inputs, terms) is None:
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
    if (reason := _unlike_attention(inputs, terms)) is not None:
        return Unserved({"query": str(tuple(query.shape))}, reason)
    kept = True
    if (one := _strides_of_one(inputs)) is not None:
        layout, apart = one
        family, problem = _attention_problem(query, key, causal=causal, layout=layout)
        if family == "sdpa" and TABLE.has(family, query.device, problem):
            if _apart(inputs) == apart:
                return Call(problem=problem, results=((tuple(query.shape), _strides_by_tokens(query)),), apart=apart)
            kept = False  # tensors of these strides may be parts of one at another call
    by_tokens = _lies_by_tokens(query)
    family, problem = _attention_problem(query, key, causal=causal, layout="bshd" if by_tokens else "")
    unlike = [
        place
        for place, each in ((1, key), (2, value))
        if not (each.transpose(1, 2) if by_tokens else each).is_contiguous()
    ]
    return Call(
        family=family,
        problem=problem,
        results=((tuple(query.shape), query.stride() if by_tokens else None),),
        by_tokens=by_tokens,
        convert=dict.fromkeys(unlike, _by_tokens if by_tokens else torch.Tensor.contiguous),
        copies=bool(unlike),
        kept=kept,
    )


def _lies_by_tokens(heads: torch.Tensor) -> bool:
    """Return True if (B, H, S, D) lies in memory as (B, S, H, D)."""
    return not heads.is_contiguous() and heads.transpose(1, 2).is_contiguous()


def _by_tokens(heads: torch.Tensor) -> torch.Tensor:
    """Return a copy of (B, H, S, D) that lies in memory as (B, S, H, D)."""
    return heads.transpose(1, 2).contiguous().transpose(1, 2)


_ATTENTION = Operation(
    name="scaled_dot_product_attention",
    arguments=("query", "key", "value"),
    family="sdpa",
    plain=lambda terms, *inputs: _attention(*inputs, is_causal=terms[1], scale=terms[2], enable_gqa=terms[3]),
    describe=_attention_call,
)


def _unlike_attention(inputs: tuple[torch.Tensor, ...], terms: Terms) -> str | None:  # noqa: PLR0911
    """Return why no kernel can serve such a call; None if one can."""
    masked, causal, scale, grouped = terms
    query, key, value = inputs
    if masked:
        return "a mask or dropout"
    if query.ndim != 4 or key.ndim != 4 or key.shape != value.shape:
        return "not four dimensions, or values unlike keys"
    if scale is not None and abs(scale * query.shape[-1] ** 0.5 - 1.0) > 1e-6:
        return "another scale than 1 / sqrt(D)"
    if query.shape[1] != key.shape[1] and not (grouped and query.shape[1] % key.shape[1] == 0):
        return "unlike numbers of heads without enable_gqa"
    if query.shape[::3] != key.shape[::3] or not query.numel() or not key.numel():
        return "queries unlike keys, or no elements"
    if causal and query.shape[2] != key.shape[2]:
        return "a causal mask of queries and keys of unlike length, which PyTorch aligns at the first key"
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
    """Return the layout of the one tensor whose parts q, k and v are by their strides, and the bytes from q to each.

    Such views, (B, heads, S, D), are what a projection leaves that computes all three at once: (B, S, H + 2 KV, D) with
    all heads of q first (`qkv`), or (B, S, H, 3, D) (`qkv_heads`). None: they lie otherwise.
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


def _apart(inputs: tuple[torch.Tensor, ...]) -> tuple[int, ...] | None:
    """Return the bytes from the first tensor to each, if they share their memory."""
    try:
        storages = {each.untyped_storage().data_ptr() for each in inputs}
        return tuple(each.data_ptr() - inputs[0].data_ptr() for each in inputs) if len(storages) == 1 else None
    except (RuntimeError, NotImplementedError):
        return None


def _strides_by_tokens(like: torch.Tensor) -> tuple[int, ...]:
    """Return the strides of (B, H, S, D) that lies in memory as (B, S, H, D)."""
    _, heads, length, size = like.shape
    return (length * heads * size, size, heads * size, 1)


def _epsilon(input: torch.Tensor, given: float | None) -> float:
    return torch.finfo(input.dtype).eps if given is None else given


def _rows(input: torch.Tensor, cols: int) -> dict[str, Any]:
    return {"rows": input.numel() // cols if cols else 0, "cols": cols, "dtype": dtype_name(input.dtype)}


def _nothing(like: torch.Tensor) -> torch.Tensor:
    """Return a bias that the kernel does not read."""
    key = (like.device, like.dtype)
    found = _NOTHING.get(key)
    if found is None:
        found = _NOTHING[key] = torch.zeros(1, dtype=like.dtype, device=like.device)
    return found


_NOTHING: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the dtype's name in problems."""
    return str(dtype).removeprefix("torch.")
