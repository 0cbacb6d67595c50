"""What a function of PyTorch tensors takes on a GPU, as it is and compiled: for a family's ``reference.py``."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Function: TypeAlias = Callable[..., object]


def torch_baselines(function: Function, names: Sequence[str]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """``torch`` and ``torch-compile``: each takes the inputs and returns the call that is timed.

    Args:
        function: of tensors; compiled once for all that it is called on.
        names: of the inputs it takes, in its own order.
    """
    return {
        "torch": partial(_on_gpu, function, names, compiled=False),
        "torch-compile": partial(_on_gpu, function, names, compiled=True),
    }


def _on_gpu(function: Function, names: Sequence[str], inputs: Arrays, *, compiled: bool) -> Callable[[], object]:
    """
    Raises:
        ImportError: PyTorch is absent, or built without CUDA.
    """
    import torch

    if not torch.cuda.is_available():
        raise ImportError("this PyTorch does not see the GPU: install one built for CUDA")
    tensors: list[Any] = [torch.from_numpy(inputs[name]).cuda() for name in names]
    return partial(_compiled(function) if compiled else function, *tensors)


@cache
def _compiled(function: Function) -> Function:
    """Once, however many sets of inputs it is called on: a graph captures only what has been compiled before."""
    import torch

    compiled: Function = torch.compile(function)
    return compiled
