"""Rotary position embedding."""

import torch

from . import operators
from .serving import Call, Operation, Terms, Unserved, compiling, dtype_name, lies_by_tokens


def apply_rotary_pos_emb(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return queries and keys with rotary position embedding, as defined by the library transformers.

    Args:
        q, k: tensors of shape (B, heads, S, D), or (B, S, heads, D) if `unsqueeze_dim` is 2. Kernels require that they
            are contiguous in one of these two layouts.
        cos, sin: tables of shape (S, D), (1, S, D) or (B, S, D). Kernels do not support tables of shape (B, S, D) with
            B > 1. The second half of the last dimension must repeat the first half, because kernels read only the
            first half.
    """
    found = rotated(q, k, cos, sin, unsqueeze_dim)
    return rotated_by_torch(q, k, cos, sin, unsqueeze_dim) if found is None else found


def rotated(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the result of `apply_rotary_pos_emb`, computed by a kernel; None if no kernel can compute the call.

    The package's report also counts calls that no kernel can compute.
    """
    inputs = (q, k, cos, sin)
    if compiling():
        if _unsupported_reason(inputs, unsqueeze_dim) is not None:
            return None
        op = operators.traced("rotary", "rope", inputs, D=q.shape[3])
        return None if op is None else op(*inputs, unsqueeze_dim)
    found = _ROTARY.outputs(inputs, (unsqueeze_dim,))
    return None if found is None else (found[0], found[1])


def rotated_by_torch(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the result of `apply_rotary_pos_emb`, computed with PyTorch's operations."""
    cosines, sines = (each.unsqueeze(unsqueeze_dim if each.ndim == 3 else unsqueeze_dim - 1) for each in (cos, sin))
    return q * cosines + _rotated_halves(q) * sines, k * cosines + _rotated_halves(k) * sines


def _rotated_halves(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor whose last dimension is (-second half, first half) of the input's last dimension."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def _unsupported_reason(inputs: tuple[torch.Tensor, ...], unsqueeze_dim: int) -> str | None:
    """Return the reason why no kernel can compute this rotation; None if a kernel may compute it."""
    q, k, cos, sin = inputs
    if unsqueeze_dim not in (1, 2) or q.ndim != 4 or k.ndim != 4:
        return "the shape of q or k is neither (B, heads, S, D) nor (B, S, heads, D)"
    heads_at, tokens_at = (1, 2) if unsqueeze_dim == 1 else (2, 1)
    differs = any(q.shape[index] != k.shape[index] for index in (0, tokens_at, 3))
    if differs or q.shape[3] % 2 or q.shape[heads_at] % max(1, k.shape[heads_at]) or not q.numel() or not k.numel():
        return "the shapes of q and k do not match, D is odd, or a tensor has no elements"
    table = (q.shape[tokens_at], q.shape[3])
    if any(each.shape not in (table, (1, *table)) for each in (cos, sin)):
        return "cos or sin differs between batch entries, or does not have shape (S, D)"
    return None


def _rotary_call(inputs: tuple[torch.Tensor, ...], terms: Terms) -> Call | Unserved:
    (q, k, *_), (unsqueeze_dim,) = inputs, terms
    if (reason := _unsupported_reason(inputs, unsqueeze_dim)) is not None:
        return Unserved({"q": str(tuple(q.shape))}, reason)
    by_tokens = lies_by_tokens(q)
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


def _rotary_operator(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    rotated_q, rotated_k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim)
    return operators.with_strides_like(q, rotated_q), operators.with_strides_like(k, rotated_k)


operators.register(
    "rotary",
    "(Tensor q, Tensor k, Tensor cos, Tensor sin, int unsqueeze_dim) -> (Tensor, Tensor)",
    _rotary_operator,
    lambda q, k, cos, sin, unsqueeze_dim: (torch.empty_like(q), torch.empty_like(k)),
)
