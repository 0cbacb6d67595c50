"""The exported kernel as an operator of PyTorch, which torch.compile takes as it is: needs CuPy beside PyTorch.

    from torch_op import op
    output = op(*inputs)                # CUDA tensors in the order of config.json; a tuple where there are more outputs

It has no gradient: for inference, or for an autograd.Function of your own.
"""

import hashlib
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
_described = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
INPUTS = [each for each in _described["arguments"] if each["role"] == "input"]
OUTPUTS = [each for each in _described["arguments"] if each["role"] == "output"]


def _dtype(each: dict[str, Any]) -> torch.dtype:
    """PyTorch names E4M3 after what it leaves out: it is finite, and has one NaN (fn)."""
    found: torch.dtype = getattr(torch, "float8_e4m3fn" if each["dtype"] == "float8_e4m3" else each["dtype"])
    return found


def _checked(inputs: tuple[torch.Tensor, ...]) -> torch.device:
    """The one device of all inputs.

    Raises:
        TypeError: a dtype is another one.
        ValueError: shape, device or layout is another one.
    """
    for each, given in zip(INPUTS, inputs, strict=True):
        name, shape = each["name"], tuple(each["shape"])
        if given.dtype != _dtype(each):
            raise TypeError(f"{name} must be a tensor of {_dtype(each)}, not {given.dtype}")
        if tuple(given.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, not {tuple(given.shape)}")
        if not given.is_contiguous():
            raise ValueError(f"{name} must be contiguous: pass {name}.contiguous()")
        if given.device.type != "cuda":
            raise ValueError(f"{name} must be on a CUDA device, not on {given.device}")
        if given.device != inputs[0].device:
            raise ValueError(f"{name} is on {given.device}, {INPUTS[0]['name']} on {inputs[0].device}")
    return inputs[0].device


def _outputs(device: torch.device) -> list[torch.Tensor]:
    return [torch.empty(each["shape"], dtype=_dtype(each), device=device) for each in OUTPUTS]


def _returned(outputs: list[torch.Tensor]) -> Any:
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@cache
def _kernel(device: int) -> Any:
    """Loaded once for each device; by its place, since every export has a module of this name."""
    import cupy

    spec = importlib.util.spec_from_file_location(f"{__name__}_kernel", FOLDER / "kernel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with cupy.cuda.Device(device):
        return module.Kernel(FOLDER)


def _run(*inputs: torch.Tensor) -> Any:
    """Launch on PyTorch's current stream of the inputs' device."""
    import cupy

    device = _checked(inputs)
    outputs = _outputs(device)
    named = zip([*INPUTS, *OUTPUTS], [*inputs, *outputs], strict=True)
    addresses = {each["name"]: tensor.data_ptr() for each, tensor in named}
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream, device.index)
    with cupy.cuda.Device(device.index), stream:
        _kernel(device.index).launch(addresses)
    return _returned(outputs)


def _fake(*inputs: torch.Tensor) -> Any:
    """What torch.compile asks: shapes, without a launch."""
    return _returned(_outputs(_checked(inputs)))


def _name() -> str:
    """Two exports in one process are two operators."""
    told = json.dumps([_described[key] for key in ("family", "problem", "config", "architecture")], sort_keys=True)
    return f"kernel_evo::{_described['entry']}_{hashlib.sha256(told.encode()).hexdigest()[:12]}"


_TYPES = "Tensor" if len(OUTPUTS) == 1 else f"({', '.join(['Tensor'] * len(OUTPUTS))})"
_SCHEMA = f"({', '.join('Tensor ' + each['name'] for each in INPUTS)}) -> {_TYPES}"

op = torch.library.custom_op(_name(), _run, mutates_args=(), schema=_SCHEMA)
op.register_fake(_fake)
