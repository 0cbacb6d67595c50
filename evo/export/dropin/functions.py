"""Functions with the signatures of `torch.nn.functional`: on a kernel where there is one, else on PyTorch."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional as nnf

from .kernels import Kernel
from .table import FOLDER, TABLE, Entry

_attention = nnf.scaled_dot_product_attention
"""PyTorch's own, which `patch` replaces."""

Signature = tuple[Any, ...]
KEPT_SIGNATURES = 4096
_KNOWN: dict[Signature, Entry] = {}
"""Kernels of earlier calls by signature, so that a call costs little on the host."""

Plain = Callable[..., Any]
"""The same computation by PyTorch, on the tensors that the kernel takes."""


def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """RMSNorm over the last dimension, as `torch.nn.functional.rms_norm`."""
    signature = _signature("rms_norm", normalized_shape, input, weight)
    if (ready := _ready(signature, (input, weight))) is not None:
        return ready((input, weight), {"epsilon": _epsilon(input, eps)})[-1].view(input.shape)

    def by_torch() -> torch.Tensor:
        return nnf.rms_norm(input, list(normalized_shape), weight, eps)

    cols = normalized_shape[-1]
    if weight is None or len(normalized_shape) != 1:
        return _given_up("rms_norm", "rmsnorm", {"cols": cols}, "no weight, or more than one dimension", by_torch)
    epsilon = _epsilon(input, eps)
    problem = _rows(input, cols) | {"residual": False}
    if torch.compiler.is_compiling():
        return (
            by_torch() if _untraced("rmsnorm", (input, weight), cols=cols) else _op("rms_norm")(input, weight, epsilon)
        )
    x = _flat(input, cols)

    def plain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return nnf.rms_norm(x, [cols], weight, epsilon)

    found = _served("rms_norm", ("rmsnorm", problem), (x, weight), plain, signature, epsilon=epsilon)
    return by_torch() if found is None else found[-1].view(input.shape)


def add_rms_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input + residual, and its RMSNorm over the last dimension."""
    cols = weight.numel()
    plain = _added(lambda total, weight: nnf.rms_norm(total, [cols], weight, eps))
    found = _served(
        "add_rms_norm",
        ("rmsnorm", _rows(input, cols) | {"residual": True}),
        (_flat(input, cols), _flat(residual, cols), weight),
        plain,
        epsilon=eps,
    )
    total, out = plain(input, residual, weight) if found is None else found
    return total.view(input.shape), out.view(input.shape)


def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """LayerNorm over the last dimension, as `torch.nn.functional.layer_norm`."""
    signature = _signature("layer_norm", normalized_shape, input, weight, bias)
    if (ready := _ready(signature, (input, weight, bias))) is not None:
        return ready((input, weight, bias), {"epsilon": eps})[-1].view(input.shape)

    def by_torch() -> torch.Tensor:
        return nnf.layer_norm(input, list(normalized_shape), weight, bias, eps)

    cols = normalized_shape[-1]
    if weight is None or bias is None or len(normalized_shape) != 1:
        reason = "no weight, no bias, or more than one dimension"
        return _given_up("layer_norm", "layernorm", {"cols": cols}, reason, by_torch)
    if torch.compiler.is_compiling():
        if _untraced("layernorm", (input, weight, bias), cols=cols):
            return by_torch()
        return _op("layer_norm")(input, weight, bias, eps)

    def plain(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return nnf.layer_norm(x, [cols], weight, bias, eps)

    problem, inputs = _rows(input, cols) | {"residual": False}, (_flat(input, cols), weight, bias)
    found = _served("layer_norm", ("layernorm", problem), inputs, plain, signature, epsilon=eps)
    return by_torch() if found is None else found[-1].view(input.shape)


def add_layer_norm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return input + residual, and its LayerNorm over the last dimension."""
    cols = weight.numel()
    plain = _added(lambda total, weight, bias: nnf.layer_norm(total, [cols], weight, bias, eps))
    found = _served(
        "add_layer_norm",
        ("layernorm", _rows(input, cols) | {"residual": True}),
        (_flat(input, cols), _flat(residual, cols), weight, bias),
        plain,
        epsilon=eps,
    )
    total, out = plain(input, residual, weight, bias) if found is None else found
    return total.view(input.shape), out.view(input.shape)


def softmax(
    input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Softmax over one dimension, as `torch.nn.functional.softmax`; kernels serve the last one."""
    signature = _signature("softmax", (dim, dtype), input)
    if (ready := _ready(signature, (input,))) is not None:
        return ready((input,), {})[-1].view(input.shape)

    def by_torch() -> torch.Tensor:
        return nnf.softmax(input, dim, _stacklevel, dtype)

    if dim is None or input.ndim == 0 or dim % input.ndim != input.ndim - 1 or dtype not in (None, input.dtype):
        return _given_up(
            "softmax", "softmax", {"dim": str(dim)}, "another dimension than the last, or a dtype", by_torch
        )
    cols = input.shape[-1]
    if torch.compiler.is_compiling():
        return by_torch() if _untraced("softmax", (input,), cols=cols) else _op("softmax")(input)
    x = _flat(input, cols)
    found = _served("softmax", ("softmax", _rows(input, cols)), (x,), lambda x: nnf.softmax(x, -1), signature)
    return by_torch() if found is None else found[-1].view(input.shape)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Product with the transposed weight, and a bias, as `torch.nn.functional.linear`."""
    given = (input, weight, _nothing(input) if bias is None else bias)
    signature = _signature("linear", bias is None, *given)
    if (ready := _ready(signature, given)) is not None:
        return ready(given, {})[-1].view(*input.shape[:-1], weight.shape[0])

    def by_torch() -> torch.Tensor:
        return nnf.linear(input, weight, bias)

    if weight.ndim != 2:
        return _given_up("linear", "gemm", {"dimensions": weight.ndim}, "the weight is no matrix", by_torch)
    n, k = weight.shape
    inputs = (input, weight) if bias is None else (input, weight, bias)
    if torch.compiler.is_compiling():
        return by_torch() if _untraced("gemm", inputs, N=n, K=k) else _op("linear")(input, weight, bias)
    x = _flat(input, k)
    problem = {"M": input.numel() // k if k else 0, "N": n, "K": k, "b_layout": "nk", "dtype": _named(input.dtype)}
    problem["epilogue"] = "none" if bias is None else "bias"
    offset = given[2]

    def plain(x: torch.Tensor, weight: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        return nnf.linear(x, weight, None if bias is None else offset)

    found = _served("linear", ("gemm", problem), (x, weight, offset), plain, signature)
    return by_torch() if found is None else found[-1].view(*input.shape[:-1], n)


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
    """Attention, as `torch.nn.functional.scaled_dot_product_attention`; not for masks and dropout."""

    signature = _signature("attention", (attn_mask is None, dropout_p, is_causal, scale, enable_gqa), query, key, value)
    if attn_mask is None and (ready := _ready(signature, (query, key, value))) is not None:
        return ready((query, key, value), {})[-1]

    def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return _attention(q, k, v, attn_mask, dropout_p, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa)

    def by_torch() -> torch.Tensor:
        return plain(query, key, value)

    name = "scaled_dot_product_attention"
    if (
        reason := _unlike_attention(
            query,
            key,
            value,
            masked=attn_mask is not None or dropout_p > 0.0,
            causal=is_causal,
            scale=scale,
            grouped=enable_gqa,
        )
    ) is not None:
        return _given_up(name, "sdpa", {"query": str(tuple(query.shape))}, reason, by_torch)
    if torch.compiler.is_compiling():
        family = "sdpa_decode" if _decodes(query, key) else "sdpa"
        if _untraced(family, (query, key, value), D=query.shape[-1]):
            return by_torch()
        return _op("attention")(query, key, value, is_causal, enable_gqa)
    by_tokens = query.ndim == 4 and not query.is_contiguous() and _by_tokens(query, key, value)
    family, problem = _attention_problem(query, key, is_causal, by_tokens)
    inputs = tuple(each.transpose(1, 2) for each in (query, key, value)) if by_tokens else (query, key, value)

    def taken(*inputs: torch.Tensor) -> torch.Tensor:
        return plain(*(each.transpose(1, 2) for each in inputs)).transpose(1, 2) if by_tokens else plain(*inputs)

    found = _served(name, (family, problem), inputs, taken, None if by_tokens else signature)
    if found is None:
        return by_torch()
    return found[-1].transpose(1, 2) if by_tokens else found[-1]


def _unlike_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *,
    masked: bool,
    causal: bool,
    scale: float | None,
    grouped: bool,
) -> str | None:
    """Return why no kernel could serve such a call; None if one could."""
    if masked:
        return "a mask or dropout"
    if query.ndim != 4 or key.ndim != 4 or key.shape != value.shape:
        return "not four dimensions, or values unlike keys"
    if scale is not None and abs(scale * query.shape[-1] ** 0.5 - 1.0) > 1e-6:
        return "another scale than 1 / sqrt(D)"
    if query.shape[1] != key.shape[1] and not grouped:
        return "unlike numbers of heads without enable_gqa"
    if causal and query.shape[2] != key.shape[2]:
        return "a causal mask of queries and keys of unlike length, which PyTorch aligns at the first key"
    return None


def _decodes(query: torch.Tensor, key: torch.Tensor) -> bool:
    return bool(query.shape[2] == 1 and key.shape[2] > 1)


def _attention_problem(
    query: torch.Tensor, key: torch.Tensor, causal: bool, by_tokens: bool
) -> tuple[str, dict[str, Any]]:
    batch, heads, length, size = query.shape
    problem = {"B": batch, "H": heads, "S": key.shape[2], "D": size, "dtype": _named(query.dtype), "causal": causal}
    if _decodes(query, key):
        return "sdpa_decode", {**problem, "KV": key.shape[1], "Q": length}
    kv_heads = 0 if key.shape[1] == heads else key.shape[1]
    keys = 0 if key.shape[2] == length else key.shape[2]
    terms = {"KV": kv_heads, "S": length, "S_KV": keys, "window": 0}
    return "sdpa", {**problem, **terms, **({"layout": "bshd"} if by_tokens else {})}


def _by_tokens(*tensors: torch.Tensor) -> bool:
    """True if the memory of all is (B, S, H, D), as projections of a model leave it."""
    return all(each.transpose(1, 2).is_contiguous() for each in tensors)


def _served(
    function: str,
    call: tuple[str, Mapping[str, Any]],
    inputs: tuple[torch.Tensor, ...],
    plain: Plain,
    signature: Signature | None = None,
    **scalars: float,
) -> Sequence[torch.Tensor] | None:
    """Return the outputs of a kernel; None, and the call is counted, where PyTorch has to answer it.

    Args:
        call: family and problem.
        signature: of the call, by which the next one of its kind finds the kernel at once; None: it is not remembered.
        scalars: values of the kernel's scalar arguments.
    """
    family, problem = call
    if (reason := _trouble(inputs)) is not None:
        TABLE.give_up(function, family, problem, reason)
        return None
    place = TABLE.find(function, family, inputs[0].device, problem)
    if place is None:
        return None
    kernel = TABLE.kernel(place)
    if not scalars.keys() <= kernel.scalars:
        TABLE.refuse(place, function, family, problem, "a kernel without this parameter")
        return None
    for each, alignment in zip(inputs, kernel.alignments, strict=True):
        if each.data_ptr() % alignment:
            TABLE.refuse(place, function, family, problem, f"an address that is no multiple of {alignment} bytes")
            return None
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        found = _Differentiable.apply(kernel, scalars, plain, *inputs)
        return found if isinstance(found, tuple) else (found,)
    if signature is not None:
        if len(_KNOWN) >= KEPT_SIGNATURES:
            _KNOWN.clear()
        _KNOWN[signature] = TABLE.entries[place]
    return kernel(inputs, scalars)


def _signature(function: str, terms: object, *tensors: torch.Tensor | None) -> Signature | None:
    """Return everything that decides which kernel serves a call, except addresses and strides; None in a traced one."""
    if torch.compiler.is_compiling():
        return None
    described = [(type(each), each.shape, each.dtype, each.device) for each in tensors if each is not None]
    return (function, terms if isinstance(terms, bool) else tuple(terms), *described)  # type: ignore[arg-type]


def _ready(signature: Signature | None, inputs: tuple[torch.Tensor | None, ...]) -> Kernel | None:
    """Return the kernel of an earlier call of the same signature, if these tensors are fit for it as well."""
    entry = None if signature is None else _KNOWN.get(signature)
    if entry is None or entry.kernel is None or (entry.device == "cpu" and torch.get_num_threads() > entry.threads):
        return None
    recorded = torch.is_grad_enabled()
    for each, alignment in zip(inputs, entry.kernel.alignments, strict=True):
        if each is None or not each.is_contiguous() or each.data_ptr() % alignment or (recorded and each.requires_grad):
            return None
    entry.calls += 1
    return entry.kernel


def _epsilon(input: torch.Tensor, given: float | None) -> float:
    return torch.finfo(input.dtype).eps if given is None else given


def _trouble(inputs: tuple[torch.Tensor, ...]) -> str | None:
    """Return why no kernel takes such tensors; None if one may."""
    first = inputs[0]
    for each in inputs:
        if type(each) not in _KINDS:
            return "a subclass of Tensor"
        if not each.is_contiguous():
            return "not contiguous in memory"
        if each.device != first.device or each.dtype != first.dtype:
            return "tensors of several devices or dtypes"
    return None


_KINDS = (torch.Tensor, torch.nn.Parameter)


class _Differentiable(torch.autograd.Function):  # type: ignore[misc]
    """A kernel forward; backward, the call by PyTorch and its own gradient."""

    @staticmethod
    def forward(ctx: Any, kernel: Any, scalars: Mapping[str, float], plain: Plain, *inputs: torch.Tensor) -> Any:
        ctx.plain = plain
        ctx.save_for_backward(*inputs)
        outputs = kernel(inputs, scalars)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        inputs = [each.detach().requires_grad_(each.requires_grad) for each in ctx.saved_tensors]
        with torch.enable_grad():
            outputs = ctx.plain(*inputs)
        wanted = [each for each in inputs if each.requires_grad]
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        found = iter(torch.autograd.grad(outputs, wanted, gradients, allow_unused=True))
        return (None, None, None, *(next(found) if each.requires_grad else None for each in inputs))


def _given_up(
    function: str, family: str, problem: Mapping[str, Any], reason: str, by_torch: Callable[[], torch.Tensor]
) -> torch.Tensor:
    if not torch.compiler.is_compiling():
        TABLE.give_up(function, family, problem, reason)
    return by_torch()


def _untraced(family: str, inputs: Sequence[torch.Tensor], **fields: Any) -> bool:
    """True if a traced call is left to PyTorch, whose operations a compiler may fuse: no kernel could serve it."""
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        return True
    return not TABLE.offers(family, inputs[0].device.type, dtype=_named(inputs[0].dtype), **fields)


def _rows(input: torch.Tensor, cols: int) -> dict[str, Any]:
    return {"rows": input.numel() // cols if cols else 0, "cols": cols, "dtype": _named(input.dtype)}


def _flat(input: torch.Tensor, cols: int) -> torch.Tensor:
    """Return rows in the same memory; a tensor that is not contiguous stays as it is, and no kernel takes it."""
    return input.view(-1, cols) if input.is_contiguous() and cols else input


def _added(norm: Plain) -> Plain:
    def plain(x: torch.Tensor, residual: torch.Tensor, *weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + residual
        return total, norm(total, *weights)

    return plain


def _nothing(like: torch.Tensor) -> torch.Tensor:
    """A bias that the kernel does not read."""
    key = (like.device, like.dtype)
    if key not in _NOTHING:
        _NOTHING[key] = torch.zeros(1, dtype=like.dtype, device=like.device)
    return _NOTHING[key]


_NOTHING: dict[tuple[torch.device, torch.dtype], torch.Tensor] = {}


def _named(dtype: torch.dtype) -> str:
    return _NAMES.get(dtype, "other")


_NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16", torch.float64: "float64"}


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, grouped: bool) -> torch.Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)


_OPERATORS: Mapping[str, tuple[str, Plain, Plain]] = {
    "rms_norm": (
        "(Tensor x, Tensor weight, float eps) -> Tensor",
        lambda x, weight, eps: rms_norm(x, weight.shape, weight, eps),
        lambda x, weight, eps: torch.empty_like(x, memory_format=torch.contiguous_format),
    ),
    "layer_norm": (
        "(Tensor x, Tensor weight, Tensor bias, float eps) -> Tensor",
        lambda x, weight, bias, eps: layer_norm(x, weight.shape, weight, bias, eps),
        lambda x, weight, bias, eps: torch.empty_like(x, memory_format=torch.contiguous_format),
    ),
    "softmax": (
        "(Tensor x) -> Tensor",
        lambda x: softmax(x, -1),
        lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    ),
    "linear": (
        "(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
        linear,
        lambda x, weight, bias: x.new_empty((*x.shape[:-1], weight.shape[0])),
    ),
    "attention": (
        "(Tensor q, Tensor k, Tensor v, bool causal, bool grouped) -> Tensor",
        lambda *given: _attended(*given).contiguous(),
        lambda q, k, v, causal, grouped: torch.empty_like(q, memory_format=torch.contiguous_format),
    ),
}
"""Schema, implementation and fake implementation of the operators that torch.compile sees."""


def _registered() -> dict[str, Any]:
    digest = hashlib.sha256((FOLDER / "kernels.json").read_bytes() + __name__.encode()).hexdigest()[:12]
    made: dict[str, Any] = {}
    for name, (schema, implementation, fake) in _OPERATORS.items():
        made[name] = torch.library.custom_op(
            f"kernel_evo_{digest}::{name}", implementation, mutates_args=(), schema=schema
        )
        made[name].register_fake(fake)
    return made


_REGISTERED = _registered()


def _op(name: str) -> Any:
    return _REGISTERED[name]
