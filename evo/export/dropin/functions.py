"""The functions of this package. A kernel computes a call if possible; otherwise, PyTorch does."""

from .attention import scaled_dot_product_attention
from .norms import add_layer_norm, add_rms_norm, layer_norm, rms_norm
from .product import linear
from .rotary import apply_rotary_pos_emb, rotated, rotated_by_torch
from .rows import cross_entropy, softmax, swiglu

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "apply_rotary_pos_emb",
    "cross_entropy",
    "layer_norm",
    "linear",
    "rms_norm",
    "rotated",
    "rotated_by_torch",
    "scaled_dot_product_attention",
    "softmax",
    "swiglu",
]
