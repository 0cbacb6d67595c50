"""Functions with the signatures of `torch.nn.functional`: run by a kernel if there is one, else by PyTorch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from . import operators
from .plans import PLANS, key_of
from .serving import Call, Plain, give_up, serve
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
    inputs = (input, weight)
    key = key_of(("rms_norm", tuple(normalized_shape)), inputs)
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return nnf.rms_norm(input, normalized_shape, weight, eps)
        if (ready := plan.run(inputs, {"epsilon": _epsilon(input, eps)}, input.device)) is not None:
            return ready[-1]
    cols = normalized_shape[-1] if len(normalized_shape) else 0
    if weight is None or len(normalized_shape) != 1:
        give_up("rms_norm", "rmsnorm", {"cols": cols}, "no weight, or more than one dimension", key=key)
        return nnf.rms_norm(input, normalized_shape, weight, eps)

    def plain(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return nnf.rms_norm(input, normalized_shape, weight, eps)

    found = serve(
        Call(
            function="rms_norm",
            family="rmsnorm",
            problem=_rows(input, cols) | {"residual": False},
            key=key,
            inputs=(input, weight),
            names=("input", "weight"),
            plain=plain,
            results=((tuple(input.shape), None),),
            scalars={"epsilon": _epsilon(input, eps)},
        )
    )
    return plain(input, weight) if found is None else found[-1]


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
    cols = weight.numel()
    plain = _added(lambda total, weight: nnf.rms_norm(total, [cols], weight, eps))
    return _add_norm("rmsnorm", (input, residual, weight), plain, eps)


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
    inputs = (input, weight, bias)
    key = key_of(("layer_norm", tuple(normalized_shape)), inputs)
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return nnf.layer_norm(input, normalized_shape, weight, bias, eps)
        if (ready := plan.run(inputs, {"epsilon": eps}, input.device)) is not None:
            return ready[-1]
    cols = normalized_shape[-1] if len(normalized_shape) else 0
    if weight is None or bias is None or len(normalized_shape) != 1:
        reason = "no weight, no bias, or more than one dimension"
        give_up("layer_norm", "layernorm", {"cols": cols}, reason, key=key)
        return nnf.layer_norm(input, normalized_shape, weight, bias, eps)

    def plain(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return nnf.layer_norm(input, normalized_shape, weight, bias, eps)

    found = serve(
        Call(
            function="layer_norm",
            family="layernorm",
            problem=_rows(input, cols) | {"residual": False},
            key=key,
            inputs=(input, weight, bias),
            names=("input", "weight", "bias"),
            plain=plain,
            results=((tuple(input.shape), None),),
            scalars={"epsilon": eps},
        )
    )
    return plain(input, weight, bias) if found is None else found[-1]


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
    cols = weight.numel()
    plain = _added(lambda total, weight, bias: nnf.layer_norm(total, [cols], weight, bias, eps))
    return _add_norm("layernorm", (input, residual, weight, bias), plain, eps)


def _add_norm(
    family: str, inputs: tuple[torch.Tensor, ...], plain: Plain, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    input, residual, weight = inputs[:3]
    if _compiling():
        return plain(*inputs)  # type: ignore[no-any-return]
    function = "add_rms_norm" if family == "rmsnorm" else "add_layer_norm"
    key = key_of((function,), inputs)
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return plain(*inputs)  # type: ignore[no-any-return]
        if (ready := plan.run(inputs, {"epsilon": eps}, input.device)) is not None:
            return ready[0], ready[1]
    if input.shape != residual.shape:
        give_up(function, family, {"cols": weight.numel()}, "a residual of another shape", key=key)
        return plain(*inputs)  # type: ignore[no-any-return]
    found = serve(
        Call(
            function=function,
            family=family,
            problem=_rows(input, weight.numel()) | {"residual": True},
            key=key,
            inputs=inputs,
            names=("input", "residual", "weight", "bias")[: len(inputs)],
            plain=plain,
            results=((tuple(input.shape), None),) * 2,
            scalars={"epsilon": eps},
        )
    )
    total, out = plain(*inputs) if found is None else found
    return total, out


def softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return softmax over one dimension, as `torch.nn.functional.softmax`; kernels support the last dimension."""
    rank = input.ndim
    outside = dim is None or rank == 0 or not -rank <= dim < rank or dim % rank != rank - 1
    if _compiling():
        op = None
        if not outside and dtype in (None, input.dtype):
            op = operators.traced("softmax", "softmax", (input,), cols=input.shape[-1])
        return nnf.softmax(input, dim, _stacklevel, dtype) if op is None else op(input)
    key = key_of(("softmax", dim, dtype), (input,))
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return nnf.softmax(input, dim, _stacklevel, dtype)
        if (ready := plan.run((input,), {}, input.device)) is not None:
            return ready[-1]
    if outside or dtype not in (None, input.dtype):
        reason = "another dimension than the last, or a dtype"
        give_up("softmax", "softmax", {"dim": str(dim)}, reason, key=key)
        return nnf.softmax(input, dim, _stacklevel, dtype)
    found = serve(
        Call(
            function="softmax",
            family="softmax",
            problem=_rows(input, input.shape[-1]),
            key=key,
            inputs=(input,),
            names=("input",),
            plain=lambda x: nnf.softmax(x, -1),
            results=((tuple(input.shape), None),),
        )
    )
    return nnf.softmax(input, dim, _stacklevel, dtype) if found is None else found[-1]


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Return ``torch.nn.functional.silu(gate) * up``, for tensors of the same shape."""
    if _compiling():
        op = None
        if gate.shape == up.shape and gate.ndim:
            op = operators.traced("swiglu", "swiglu", (gate, up), cols=gate.shape[-1])
        return nnf.silu(gate) * up if op is None else op(gate, up)
    inputs = (gate, up)
    key = key_of(("swiglu",), inputs)
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return nnf.silu(gate) * up
        if (ready := plan.run(inputs, {}, gate.device)) is not None:
            return ready[-1]
    if gate.shape != up.shape or not gate.ndim:
        give_up("swiglu", "swiglu", {"shape": str(tuple(gate.shape))}, "tensors of several shapes", key=key)
        return nnf.silu(gate) * up
    found = serve(
        Call(
            function="swiglu",
            family="swiglu",
            problem=_rows(gate, gate.shape[-1]),
            key=key,
            inputs=inputs,
            names=("gate", "up"),
            plain=lambda gate, up: nnf.silu(gate) * up,
            results=((tuple(gate.shape), None),),
        )
    )
    return nnf.silu(gate) * up if found is None else found[-1]


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return the product with the transposed weight, plus a bias, as `torch.nn.functional.linear`."""
    if _compiling():
        inputs = (input, weight) if bias is None else (input, weight, bias)
        op = None
        if weight.ndim == 2:
            op = operators.traced("linear", "gemm", inputs, N=weight.shape[0], K=weight.shape[1])
        return nnf.linear(input, weight, bias) if op is None else op(input, weight, bias)
    key = key_of(("linear",), (input, weight, bias))
    given = (input, weight, _nothing(input) if bias is None else bias)
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return nnf.linear(input, weight, bias)
        if (ready := plan.run(given, {}, input.device)) is not None:
            return ready[-1]
    if weight.ndim != 2 or input.ndim == 0:
        give_up("linear", "gemm", {"dimensions": weight.ndim}, "the weight is no matrix", key=key)
        return nnf.linear(input, weight, bias)
    n, k = weight.shape
    if input.shape[-1] != k or (bias is not None and bias.shape != (n,)):
        give_up("linear", "gemm", {"N": n, "K": k}, "shapes that do not match, or a bias of another", key=key)
        return nnf.linear(input, weight, bias)
    problem = {"M": input.numel() // k if k else 0, "N": n, "K": k, "b_layout": "nk", "dtype": dtype_name(input.dtype)}
    problem["epilogue"] = "none" if bias is None else "bias"

    def plain(input: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return nnf.linear(input, weight, None if bias is None else offset)

    found = serve(
        Call(
            function="linear",
            family="gemm",
            problem=problem,
            key=key,
            inputs=given,
            names=("input", "weight", "bias"),
            plain=plain,
            results=(((*input.shape[:-1], n), None),),
        )
    )
    return nnf.linear(input, weight, bias) if found is None else found[-1]


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
    terms = ("cross_entropy", weight is None, size_average, ignore_index, reduce, reduction, label_smoothing)

    def plain(input: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nnf.cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)

    if _compiling() or (torch.is_grad_enabled() and input.requires_grad):
        return plain(input, target)
    key = key_of(terms, (input, target))
    ready = None
    if (plan := PLANS.get(key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return plain(input, target)
        ready = plan.run((input, target.to(torch.int32)), {}, input.device)
    if ready is None:
        reason = _unlike_rows(input, target, weight, ignore_index, label_smoothing)
        if reason is None and (size_average is not None or reduce is not None):
            reason = "size_average or reduce, which PyTorch has deprecated"
        if reason is not None:
            give_up(terms[0], "cross_entropy", {"input": str(tuple(input.shape))}, reason, key=key)
            return plain(input, target)
        found = serve(
            Call(
                function=terms[0],
                family="cross_entropy",
                problem=_rows(input, input.shape[-1]),
                key=key,
                inputs=(input, target.to(torch.int32)),
                names=("input", "target"),
                plain=plain,
                results=(((input.shape[0],), None),) * 2,
                integers=(1,),
            )
        )
        if found is None:
            return plain(input, target)
        ready = list(found)
    losses = ready[0]
    if reduction == "mean":
        losses = losses.sum() / (target != ignore_index).sum()
    elif reduction == "sum":
        losses = losses.sum()
    return losses.to(input.dtype)


def _unlike_rows(
    input: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, ignored: int, smoothing: float
) -> str | None:
    """Return why no kernel could serve such a cross entropy; None if one could."""
    if weight is not None or smoothing:
        return "weights of classes or label smoothing"
    if input.ndim != 2 or target.shape != input.shape[:1] or target.dtype != torch.int64:
        return "input is no matrix, or target no class for each of its rows"
    if 0 <= ignored < input.shape[1]:
        return "an ignore_index that is a class"
    return None


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotary position embedding of queries and keys, as models of transformers define it.

    Args:
        q, k: (B, heads, S, D), or (B, S, heads, D) where `unsqueeze_dim` is 2; contiguous, or in memory as the other.
        cos, sin: (1, S, D) or (S, D), the same for every batch entry, whose second half repeats the first. Kernels read
            the first half alone.
    """

    def plain(
        q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return rotated_by_torch(q, k, cos, sin, unsqueeze_dim)

    inputs = (q, k, cos, sin)
    if _compiling():
        return plain(*inputs)
    call_key = key_of(("apply_rotary_pos_emb", unsqueeze_dim), inputs)
    if (plan := PLANS.get(call_key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return plain(*inputs)
        if (ready := plan.run(inputs, {}, q.device)) is not None:
            return ready[0], ready[1]
    reason = _unlike_rotation(inputs, unsqueeze_dim)
    if reason is not None:
        give_up("apply_rotary_pos_emb", "rope", {"q": str(tuple(q.shape))}, reason, key=call_key)
        return plain(*inputs)
    by_tokens = not q.is_contiguous() and q.transpose(1, 2).is_contiguous()
    heads_at, tokens_at = (1, 2) if unsqueeze_dim == 1 else (2, 1)
    problem = {"B": q.shape[0], "S": q.shape[tokens_at], "H": q.shape[heads_at], "D": q.shape[3]}
    problem |= {"KV": k.shape[heads_at] if k.shape[heads_at] != q.shape[heads_at] else 0, "dtype": dtype_name(q.dtype)}
    problem["layout"] = "bshd" if (heads_at == 2) != by_tokens else "bhsd"
    found = serve(
        Call(
            function="apply_rotary_pos_emb",
            family="rope",
            problem=problem,
            key=call_key,
            inputs=inputs,
            names=("q", "k", "cos", "sin"),
            plain=plain,
            results=tuple((tuple(each.shape), each.stride() if by_tokens else None) for each in (q, k)),
            by_tokens=by_tokens,
        )
    )
    return plain(*inputs) if found is None else (found[0], found[1])


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

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return _attention(q, k, v, attn_mask, dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)

    if _compiling():
        masked = attn_mask is not None or dropout_p > 0.0
        reason = _unlike_attention(inputs, masked=masked, causal=is_causal, scale=scale, grouped=enable_gqa)
        op = None
        if reason is None:
            family = "sdpa_decode" if _decodes(query, key) else "sdpa"
            op = operators.traced("attention", family, inputs, D=query.shape[-1])
        return plain(*inputs) if op is None else op(query, key, value, is_causal, enable_gqa)
    terms = ("scaled_dot_product_attention", attn_mask is None, dropout_p, is_causal, scale, enable_gqa)
    call_key = key_of(terms, inputs)
    if (plan := PLANS.get(call_key)) is not None:
        if plan.kernel is None:
            plan.count.calls += 1
            return plain(*inputs)
        if (ready := plan.run(inputs, {}, query.device)) is not None:
            return ready[0]
    masked = attn_mask is not None or dropout_p > 0.0
    reason = _unlike_attention(inputs, masked=masked, causal=is_causal, scale=scale, grouped=enable_gqa)
    if reason is not None:
        give_up(terms[0], "sdpa", {"query": str(tuple(query.shape))}, reason, key=call_key)
        return plain(*inputs)
    one = _strides_of_one(inputs)
    if one is not None:
        layout, apart = one
        problem = _attention_problem(query, key, causal=is_causal, layout=layout)[1]
        if TABLE.has("sdpa", query.device, problem):
            if _apart(inputs) == apart:
                found = serve(
                    Call(
                        function=terms[0],
                        family="sdpa",
                        problem=problem,
                        key=call_key,
                        inputs=inputs,
                        names=("query", "key", "value"),
                        plain=plain,
                        results=((tuple(query.shape), _strides_by_tokens(query)),),
                        apart=apart,
                    )
                )
                return plain(*inputs) if found is None else found[0]
            call_key = None  # tensors of these strides may be parts of one at another call
    by_tokens = not query.is_contiguous() and query.transpose(1, 2).is_contiguous()
    laid_out = [(each.transpose(1, 2) if by_tokens else each).is_contiguous() for each in inputs]
    copied = tuple(place for place in (1, 2) if not laid_out[place])
    family, problem = _attention_problem(query, key, causal=is_causal, layout="bshd" if by_tokens else "")
    found = serve(
        Call(
            function=terms[0],
            family=family,
            problem=problem,
            key=call_key,
            inputs=inputs,
            names=("query", "key", "value"),
            plain=plain,
            results=((tuple(query.shape), query.stride() if by_tokens else None),),
            by_tokens=by_tokens,
            copied=copied,
        )
    )
    return plain(*inputs) if found is None else found[0]


def _unlike_attention(  # noqa: PLR0911 — one reason each
    inputs: tuple[torch.Tensor, ...], *, masked: bool, causal: bool, scale: float | None, grouped: bool
) -> str | None:
    """Return why no kernel can serve such a call; None if one can."""
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


def _added(norm: Plain) -> Plain:
    def plain(x: torch.Tensor, residual: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + residual
        return total, norm(total, *weights)

    return plain


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
