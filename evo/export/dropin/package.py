"""Drop-in replacements for PyTorch functions, with kernels tuned for the shapes of a program.

The package needs only this folder and PyTorch.

    import fast                     # the name of this folder

    y = fast.rms_norm(x, (4096,), weight, 1e-5)
    fast.patch(model)               # or let a model's modules use the functions
    print(fast.report())            # which calls used kernels, and which used PyTorch

    python -m fast                  # times of each kernel alone, of the package's function, and of PyTorch's function

If `torch.nn.functional` has a function of the same name, both have the same signature. The results equal those of
PyTorch within the precision of the dtype. PyTorch computes a call if no kernel supports it, e.g. because there is no
kernel for its shape or layout, or because the kernel was not built for this machine. `report` counts these calls by
reason, and ``report().suite()`` is a suite file for tuning the missing kernels. After ``strict(True)``, such calls
raise an exception instead.

Gradients: only the forward pass uses the kernels. The backward pass recomputes the call with PyTorch and differentiates
the result. If gradients are needed, PyTorch computes both passes of `cross_entropy`. Under torch.compile, each call is
one custom operator with a fake implementation; PyTorch computes calls that need gradients.
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
