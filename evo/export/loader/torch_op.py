"""The exported kernel as a PyTorch operator, which works with torch.compile. For a GPU it also needs CuPy.

    from torch_op import op

    output = op(*inputs)                # tensors in the order of config.json; a tuple if there are several outputs

In-place arguments (inout) are among the inputs, and are changed. If there are no other outputs, the operator returns
nothing. Calls on several streams or by several threads run one after another, because they share workspaces. The
operator has no gradient. Use it for inference, or inside your own autograd.Function.
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
INPUTS = [each for each in _described["arguments"] if each["role"] in ("input", "inout")]
OUTPUTS = [each for each in _described["arguments"] if each["role"] == "output"]
DEVICE = "cuda" if "launch" in _described else "cpu"
ADDRESSES = 16
"""Required alignment of an address on a GPU in bytes, which is the size of the widest loads and copies."""


def _dtype(each: dict[str, Any]) -> torch.dtype:
    """Return the PyTorch dtype of an argument. PyTorch's name of E4M3 is float8_e4m3fn (finite, with one NaN)."""
    found: torch.dtype = getattr(torch, "float8_e4m3fn" if each["dtype"] == "float8_e4m3" else each["dtype"])
    return found


def fits(*inputs: torch.Tensor) -> bool:
    """Return True if the inputs have the shapes and dtypes for which the kernel was compiled."""
    return len(inputs) == len(INPUTS) and all(
        given.dtype == _dtype(each) and tuple(given.shape) == tuple(each["shape"])
        for each, given in zip(INPUTS, inputs, strict=True)
    )


def _checked(inputs: tuple[torch.Tensor, ...]) -> torch.device:
    """Return the device of the inputs after checking all of them.

    Raises:
        TypeError: an input has a wrong dtype.
        ValueError: an input has a wrong shape or layout, is on a wrong device, or contains a value outside the
            argument's limits.
    """
    for each, given in zip(INPUTS, inputs, strict=True):
        name, shape = each["name"], tuple(each["shape"])
        if given.dtype != _dtype(each):
            raise TypeError(f"{name} must be a tensor of {_dtype(each)}, not {given.dtype}")
        if tuple(given.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, not {tuple(given.shape)}")
        if not given.is_contiguous():
            raise ValueError(f"{name} must be contiguous; pass {name}.contiguous()")
        if given.device.type != DEVICE:
            place = "a CUDA device" if DEVICE == "cuda" else "the CPU"
            raise ValueError(f"{name} must be on {place}, not on {given.device}")
        if given.device != inputs[0].device:
            raise ValueError(f"{name} must be on {inputs[0].device}, like {INPUTS[0]['name']}, not on {given.device}")
        if "min" in each or "max" in each:
            _refuse_beyond(each, given)
    return inputs[0].device


def _refuse_beyond(each: dict[str, Any], given: torch.Tensor) -> None:
    """Raise ValueError if an argument has a value outside its limits, e.g. a length that exceeds a cache.

    Values on a GPU are read back to the host. They are not checked while a graph is captured.
    """
    if given.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return
    least, most = int(given.min()), int(given.max())
    low, high = each.get("min", least), each.get("max", most)
    if least < low or most > high:
        wrong = least if least < low else most
        raise ValueError(f"{each['name']} contains {wrong}, but its values must be from {low} to {high}")


def _check_addresses(inputs: tuple[torch.Tensor, ...]) -> None:
    """Raise ValueError if an input's address is not aligned. Even a contiguous slice of a tensor may be unaligned."""
    for each, given in zip(INPUTS, inputs, strict=True):
        if given.data_ptr() % ADDRESSES:
            name = each["name"]
            raise ValueError(f"{name} is not aligned to {ADDRESSES} bytes; pass {name}.clone()")


def _outputs(device: torch.device) -> list[torch.Tensor]:
    return [_output(each, device) for each in OUTPUTS]


def _output(each: dict[str, Any], device: torch.device) -> torch.Tensor:
    """Return a new output. If the call does not fill it (`init_timed` is false), it contains its initial value."""
    made = torch.empty(each["shape"], dtype=_dtype(each), device=device)
    if "init" in each and not each["init_timed"]:
        (made if each["stored"] == each["dtype"] else made.view(getattr(torch, each["stored"]))).fill_(each["init"])
    return made


def _returned(outputs: list[torch.Tensor]) -> Any:
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


@cache
def _module() -> Any:
    """Import ``kernel.py``, the loader, by its path, because every export has a file with this name."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_kernel", FOLDER / "kernel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _on_cpu() -> Any:
    return _module().Kernel(FOLDER)


@cache
def _on_gpu(device: int) -> Any:
    """Return the kernel for the GPU with this index. Each GPU's kernel is loaded only once."""
    import cupy

    with cupy.cuda.Device(device):
        return _module().Kernel(FOLDER)


def _array(each: dict[str, Any], tensor: torch.Tensor) -> Any:
    """Return the tensor's memory as a NumPy array. If NumPy lacks the dtype, the array contains bit patterns."""
    same = each["stored"] == each["dtype"]
    return (tensor if same else tensor.view(getattr(torch, each["stored"]))).detach().numpy()


def _launch(tensors: dict[str, torch.Tensor], device: torch.device) -> None:
    """Launch the kernel on PyTorch's current stream of the device."""
    import cupy

    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(device).cuda_stream, device.index)
    with cupy.cuda.Device(device.index), stream:
        _on_gpu(device.index).launch({name: tensor.data_ptr() for name, tensor in tensors.items()})


def _run(*inputs: torch.Tensor) -> Any:
    device = _checked(inputs)
    outputs = _outputs(device)
    passed, tensors = [*INPUTS, *OUTPUTS], [*inputs, *outputs]
    if DEVICE == "cuda":
        _check_addresses(inputs)
        _launch({each["name"]: tensor for each, tensor in zip(passed, tensors, strict=True)}, device)
    else:
        _on_cpu()(**{each["name"]: _array(each, tensor) for each, tensor in zip(passed, tensors, strict=True)})
    return _returned(outputs)


def _fake(*inputs: torch.Tensor) -> Any:
    """Return empty outputs for torch.compile, which needs only their shapes."""
    return _returned(_outputs(_checked(inputs)))


def _name() -> str:
    """Return an operator name that differs between exports, so that one process can load several exports."""
    identity = json.dumps([_described[key] for key in ("family", "problem", "config", "architecture")], sort_keys=True)
    return f"kernel_evo::{_described['entry']}_{hashlib.sha256(identity.encode()).hexdigest()[:12]}"


_TYPES = "Tensor" if len(OUTPUTS) == 1 else f"({', '.join(['Tensor'] * len(OUTPUTS))})"
CHANGED = [each["name"] for each in INPUTS if each["role"] == "inout"]
_MARKS = {name: f"(a{place}!)" for place, name in enumerate(CHANGED)}
SCHEMA = f"({', '.join('Tensor' + _MARKS.get(each['name'], '') + ' ' + each['name'] for each in INPUTS)}) -> {_TYPES}"

op = torch.library.custom_op(_name(), _run, mutates_args=CHANGED, schema=SCHEMA)
op.register_fake(_fake)
