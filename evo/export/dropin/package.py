"""Drop-in replacements for PyTorch functions, with kernels tuned for the shapes of a program.

Needs only this folder and PyTorch.

    import fast                     # the name of this folder
    y = fast.rms_norm(x, (4096,), weight, 1e-5)
    fast.patch(model)               # or let a model's modules use them
    print(fast.report())            # what ran here, and what fell back to PyTorch
    python -m fast                  # each kernel's time: alone, as a program calls it, and PyTorch's

Each function has the signature of its namesake in `torch.nn.functional` and the same result within the precision of its
dtype. Calls with a shape that has no kernel, with another layout, or on a machine that the kernel was not built for
fall back to PyTorch. `report` counts these calls by reason, and ``report().suite()`` is a suite file for the next
search. ``strict(True)`` raises instead.

Gradients: only the forward pass uses the kernels; the backward pass recomputes the call with PyTorch and differentiates
that. Under torch.compile, each call is one custom operator with a fake implementation; calls that need gradients fall
back to PyTorch.
"""

from .functions import (
    add_layer_norm,
    add_rms_norm,
    apply_rotary_pos_emb,
    cross_entropy,
    layer_norm,
    linear,
    rms_norm,
    scaled_dot_product_attention,
    softmax,
    swiglu,
)
from .measuring import measure
from .patching import patch, unpatch
from .plans import strict
from .table import report, reset

__all__ = [
    "add_layer_norm",
    "add_rms_norm",
    "apply_rotary_pos_emb",
    "cross_entropy",
    "layer_norm",
    "linear",
    "measure",
    "patch",
    "report",
    "reset",
    "rms_norm",
    "scaled_dot_product_attention",
    "softmax",
    "strict",
    "swiglu",
    "unpatch",
]
