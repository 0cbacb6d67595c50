"""Makes the modules of a model use the functions of this package."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MethodType, ModuleType
from typing import Any

import torch
from torch.nn import functional as nnf

from . import functions

_PATCHED = "_kernel_evo_forward"
_ORIGINAL_ATTENTION = nnf.scaled_dot_product_attention
_ROTARY = "apply_rotary_pos_emb"
_REFUSED = (AttributeError, TypeError, RuntimeError, ValueError)
"""Exceptions that a module may raise if it does not accept a small example."""


def patch(model: torch.nn.Module) -> dict[str, int]:
    """Change a model in place, so that it calls this package's functions.

    The following modules and functions are replaced:

    - Linear, LayerNorm, RMSNorm and Softmax modules.
    - The gated products in modules with `gate_proj`, `up_proj` and `down_proj`, and classes of other libraries whose
      name ends in RMSNorm, if they compute the same as this package on a small example.
    - `torch.nn.functional.scaled_dot_product_attention`, for the whole process, because models call the function under
      this name. Calls without a kernel still use PyTorch's function.
    - `apply_rotary_pos_emb` in the Python modules that define the model's classes, as in transformers. It is replaced
      if it rotates a small example as this package does, and if the second half of the model's rotary tables repeats
      the first. Calls without a kernel use the original function.

    Modules keep their hooks. Modules of other classes are not changed. `unpatch` undoes all replacements.

    Returns:
        The number of patched modules by kind, and the number of replaced rotary functions under their name. The
        attention function is not counted.
    """
    counts: dict[str, int] = {}
    for module in model.modules():
        found = _forward(module)
        if found is not None and _PATCHED not in module.__dict__:
            kind, forward = found
            module.__dict__[_PATCHED] = module.__dict__.get("forward")
            module.__dict__["forward"] = MethodType(forward, module)
            counts[kind] = counts.get(kind, 0) + 1
    for source in _sources(model):
        original = getattr(source, _ROTARY, None)
        if callable(original) and original not in _REPLACED and _rotates(original) and _repeats_halves(model, source):
            replacement = _rotary(original)
            _REPLACED[replacement] = original
            setattr(source, _ROTARY, replacement)
            counts[_ROTARY] = counts.get(_ROTARY, 0) + 1
    nnf.scaled_dot_product_attention = functions.scaled_dot_product_attention
    return counts


def unpatch(model: torch.nn.Module) -> None:
    """Undo `patch` for a model: restore its modules, PyTorch's attention, and the model's rotary embedding."""
    for module in _patched(model):
        before = module.__dict__.pop(_PATCHED)
        del module.__dict__["forward"]
        if before is not None:
            module.__dict__["forward"] = before
    for source in _sources(model):
        original = _REPLACED.pop(getattr(source, _ROTARY, None), None)
        if original is not None:
            setattr(source, _ROTARY, original)
    nnf.scaled_dot_product_attention = _ORIGINAL_ATTENTION


def _patched(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    yield from (module for module in model.modules() if _PATCHED in module.__dict__)


_REPLACED: dict[Any, Callable[..., Any]] = {}
"""Functions that `patch` replaced, by their replacement."""


def _sources(model: torch.nn.Module) -> list[ModuleType]:
    """Return the Python modules that define the classes of a model's modules."""
    names = dict.fromkeys(type(module).__module__ for module in model.modules())
    return [sys.modules[name] for name in names if name in sys.modules]


def _rotary(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a replacement for `original` that uses a kernel if a kernel can compute the call, else `original`."""

    @functools.wraps(original)
    def apply_rotary_pos_emb(q: Any, k: Any, cos: Any, sin: Any, *others: Any, **named: Any) -> Any:
        found = None
        if not others and list(named) in ([], ["unsqueeze_dim"]):
            found = functions.rotated(q, k, cos, sin, **named)
        return original(q, k, cos, sin, *others, **named) if found is None else found

    return apply_rotary_pos_emb


def _rotates(original: Callable[..., Any]) -> bool:
    """Return True if a function computes the same rotation as this package, tested on a small example.

    The check is needed because some functions with the name ``apply_rotary_pos_emb`` interleave pairs, or take only one
    tensor.
    """
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(2, heads, 4, 8, generator=generator) for heads in (4, 2))
    angles = torch.randn(1, 4, 4, generator=generator).repeat(1, 1, 2)
    try:
        takes = inspect.signature(original).parameters.get("unsqueeze_dim")
        if takes is not None and takes.default != 1:
            return False
        found = [original(q, k, angles.cos(), angles.sin())]
        expected = [functions.rotated_by_torch(q, k, angles.cos(), angles.sin())]
        if takes is not None:
            by_tokens = (q.transpose(1, 2), k.transpose(1, 2), angles.cos(), angles.sin())
            found.append(original(*by_tokens, unsqueeze_dim=2))
            expected.append(functions.rotated_by_torch(*by_tokens, unsqueeze_dim=2))
        return all(
            torch.allclose(a, b) for pairs in zip(found, expected, strict=True) for a, b in zip(*pairs, strict=True)
        )
    except _REFUSED:
        return False


def _repeats_halves(model: torch.nn.Module, source: ModuleType) -> bool:
    """Return True if the second half of the model's rotary tables repeats the first half.

    This must hold for every rotary embedding module whose class is defined in `source`, because kernels read only the
    first half. The result is False if the model has no such module.
    """
    found = [
        module
        for module in model.modules()
        if type(module).__name__.endswith("RotaryEmbedding") and type(module).__module__ == source.__name__
    ]
    try:
        with torch.no_grad():
            return bool(found) and all(_halves_equal(each) for each in found)
    except _REFUSED:
        return False


def _halves_equal(embedding: torch.nn.Module) -> bool:
    device = next((each.device for each in embedding.buffers()), torch.device("cpu"))
    tables = embedding(torch.zeros(1, device=device), torch.arange(4, device=device)[None])
    return len(tables) == 2 and all(torch.equal(*each.chunk(2, dim=-1)) for each in tables)


def _forward(module: torch.nn.Module) -> tuple[str, Callable[..., Any]] | None:
    """Return the kind of a module and the module's new forward method; None if the module is not patched."""
    kind = type(module)
    if kind in _KINDS:
        return _KINDS[kind]
    if kind.__name__.endswith("RMSNorm") and _scales_by_weight(module):
        return "RMSNorm", _named_rms_norm
    return ("SwiGLU", _gated) if _is_gated(module) else None


def _is_gated(module: torch.nn.Module) -> bool:
    """Return True if a module computes ``down_proj(silu(gate_proj(x)) * up_proj(x))`` on a small example."""
    parts = [getattr(module, name, None) for name in ("gate_proj", "up_proj", "down_proj")]
    if not all(type(each) is torch.nn.Linear for each in parts):
        return False
    weight = parts[0].weight  # type: ignore[union-attr]
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(2, weight.shape[1], generator=generator).to(device=weight.device, dtype=weight.dtype)
    try:
        with torch.no_grad():
            theirs, ours = module(example), _gated_by_torch(module, example)
    except _REFUSED:
        return False
    if not isinstance(theirs, torch.Tensor) or theirs.shape != ours.shape:
        return False
    scale = float(ours.float().abs().max())
    return bool(torch.allclose(theirs.float(), ours.float(), rtol=0.0, atol=8 * torch.finfo(weight.dtype).eps * scale))


def _scales_by_weight(module: torch.nn.Module) -> bool:
    """Return True if a different library's RMSNorm computes the same as PyTorch's RMSNorm on a small example.

    The check is needed because some RMSNorm classes scale by 1 + weight, or have a bias.
    """
    weight = getattr(module, "weight", None)
    if not isinstance(weight, torch.Tensor) or weight.ndim != 1 or _epsilon(module) is None:
        return False
    generator = torch.Generator().manual_seed(0)
    example = torch.randn(2, weight.numel(), generator=generator).to(device=weight.device, dtype=weight.dtype)
    try:
        with torch.no_grad():
            theirs = module(example)
            ours = nnf.rms_norm(example.float(), list(weight.shape), weight.float(), _epsilon(module))
    except _REFUSED:
        return False
    if not isinstance(theirs, torch.Tensor) or theirs.dtype != example.dtype:
        return False
    return bool(torch.allclose(theirs.float(), ours, rtol=8 * torch.finfo(weight.dtype).eps, atol=1e-5))


def _epsilon(module: torch.nn.Module) -> float | None:
    found = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    return found if isinstance(found, float) else None


def _gated_by_torch(module: Any, x: torch.Tensor) -> torch.Tensor:
    product = nnf.silu(module.gate_proj(x)) * module.up_proj(x)
    return module.down_proj(product)


def _linear(self: Any, input: torch.Tensor) -> torch.Tensor:
    return functions.linear(input, self.weight, self.bias)


def _layer_norm(self: Any, input: torch.Tensor) -> torch.Tensor:
    return functions.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


def _softmax(self: Any, input: torch.Tensor) -> torch.Tensor:
    return functions.softmax(input, self.dim)


def _rms_norm(self: Any, input: torch.Tensor) -> torch.Tensor:
    return functions.rms_norm(input, self.normalized_shape, self.weight, self.eps)


def _named_rms_norm(self: Any, hidden_states: torch.Tensor) -> torch.Tensor:
    return functions.rms_norm(hidden_states, self.weight.shape, self.weight, _epsilon(self))


def _gated(self: Any, x: torch.Tensor) -> torch.Tensor:
    return self.down_proj(functions.swiglu(self.gate_proj(x), self.up_proj(x)))


_KINDS: Mapping[type, tuple[str, Callable[..., Any]]] = {
    torch.nn.Linear: ("Linear", _linear),
    torch.nn.LayerNorm: ("LayerNorm", _layer_norm),
    torch.nn.RMSNorm: ("RMSNorm", _rms_norm),
    torch.nn.Softmax: ("Softmax", _softmax),
}
"""Kind and new forward method of a module, by the module's class."""
