"""PyTorch baselines for a family's ``reference.py``: on the CPU, and eager and compiled on a GPU."""

import os
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeAlias

from evo.reference import Array, Arrays

Function: TypeAlias = Callable[..., object]


def torch_on_cpu() -> Any:
    """Return the module ``torch``, set to ``OMP_NUM_THREADS`` threads, or to one thread if the variable is not set."""
    import torch

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    return torch


def torch_on_gpu() -> Any:
    """Return the module ``torch`` for baselines on a GPU.

    Raises:
        ImportError: PyTorch is not installed, or finds no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise ImportError("PyTorch finds no GPU; install a PyTorch that is built for CUDA")
    return torch


def tensor_of(array: Array, dtype: str) -> Any:
    """Return a tensor that shares the array's memory. Codes of ``bfloat16`` are viewed as numbers of that dtype."""
    import torch

    tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def on_cpu(function: Function, names: Sequence[str], dtype: str, inputs: Arrays) -> Callable[[], object]:
    """Return the timed function of the CPU baseline ``torch``, which applies `function` to the named inputs."""
    torch_on_cpu()
    return partial(function, *(tensor_of(inputs[name], dtype) for name in names))


def torch_baselines(
    function: Function, names: Sequence[str], *, dtype: str
) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return the GPU baselines ``torch`` and ``torch-compile`` by name.

    A baseline takes the inputs and returns the function whose calls are timed.

    Args:
        function: function of tensors. It is compiled once for all inputs.
        names: names of the function's inputs, in the order of its parameters.
        dtype: dtype of the problem. Inputs of ``bfloat16`` are arrays of 16-bit codes.
    """
    return {
        "torch": partial(_on_gpu, function, names, dtype, compiled=False),
        "torch-compile": partial(_on_gpu, function, names, dtype, compiled=True),
    }


def _on_gpu(
    function: Function, names: Sequence[str], dtype: str, inputs: Arrays, *, compiled: bool
) -> Callable[[], object]:
    """Return a callable that applies the function to inputs that have been copied to the GPU.

    Raises:
        ImportError: PyTorch is not installed, or finds no GPU.
    """
    torch = torch_on_gpu()
    tensors: list[Any] = [torch.from_numpy(inputs[name]).cuda() for name in names]
    if dtype == "bfloat16":
        tensors = [each.view(torch.bfloat16) for each in tensors]
    return partial(_compiled(function) if compiled else function, *tensors)


@cache
def _compiled(function: Function) -> Function:
    """Return the function, compiled once for all inputs, because a CUDA graph cannot capture a call that compiles.

    In the mode ``max-autotune-no-cudagraphs``, PyTorch tries the largest number of implementations, and captures no
    CUDA graphs itself. The caller captures the timed calls in graphs.
    """
    import torch

    compiled: Function = torch.compile(function, mode="max-autotune-no-cudagraphs")
    return compiled
