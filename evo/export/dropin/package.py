"""Functions of PyTorch with kernels that were searched for the shapes of a program. Needs only this folder and PyTorch.

    import fast                     # the name of this folder
    y = fast.rms_norm(x, (4096,), weight, 1e-5)
    fast.patch(model)               # or let a model's modules use them
    print(fast.report())            # what ran here, and what fell back to PyTorch
    python -m fast                  # each kernel's time: alone, as a program calls it, and PyTorch's

Each function has the signature of its namesake in `torch.nn.functional` and the same result within the precision of its
dtype. Shapes without a kernel, other layouts, and machines that a kernel was not built for go to PyTorch; `report`
counts them by reason, and ``report().suite()`` is a suite for the next search. ``strict(True)`` raises instead.

Gradients: the kernels compute forward; the backward pass recomputes the call with PyTorch and is PyTorch's own. Under
torch.compile a call is one operator with a fake implementation; one that needs gradients goes to PyTorch there.
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
