"""PyTorch baselines on a GPU, eager and compiled, for a family's ``reference.py``."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Arrays: TypeAlias = Mapping[str, NDArray[np.generic]]
Function: TypeAlias = Callable[..., object]


def tensor_of(array: NDArray[np.generic], dtype: str) -> Any:
    """Return a tensor that shares the array's memory. Codes of ``bfloat16`` are viewed as numbers of that dtype."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def torch_baselines(
    function: Function, names: Sequence[str], *, dtype: str
) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return the baselines ``torch`` and ``torch-compile``, as functions of the inputs that return the call to time.

    Args:
        function: function of tensors. It is compiled once for all inputs.
        names: names of its inputs, in the order of its parameters.
        dtype: dtype of the problem. Inputs of ``bfloat16`` are arrays of 16-bit codes.
    """
    return {
        "torch": partial(_on_gpu, function, names, dtype, compiled=False),
        "torch-compile": partial(_on_gpu, function, names, dtype, compiled=True),
    }


def _on_gpu(
    function: Function, names: Sequence[str], dtype: str, inputs: Arrays, *, compiled: bool
) -> Callable[[], object]:
    """Return a call of the function on inputs that are copied to the GPU.

    Raises:
        ImportError: PyTorch is not installed, or was built without CUDA.
    """
    import torch

    if not torch.cuda.is_available():
        raise ImportError("this PyTorch does not see the GPU: install one built for CUDA")
    tensors: list[Any] = [torch.from_numpy(inputs[name]).cuda() for name in names]
    if dtype == "bfloat16":
        tensors = [each.view(torch.bfloat16) for each in tensors]
    return partial(_compiled(function) if compiled else function, *tensors)


@cache
def _compiled(function: Function) -> Function:
    """Compile a function once for all inputs, because a CUDA graph can capture only code that was compiled before.

    The mode ``max-autotune-no-cudagraphs`` times the most variants; the caller captures the calls in its own graphs.
    """
    import torch

    compiled: Function = torch.compile(function, mode="max-autotune-no-cudagraphs")
    return compiled
