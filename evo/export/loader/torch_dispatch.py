"""The exported kernels as one PyTorch operator, which selects the kernel by shape and works with torch.compile.

    from torch_op import op, op_for

    output = op(*inputs)                    # tensors in the order of config.json; their shapes select the kernel
    output = op_for(causal=True)(*inputs)   # if the shapes are ambiguous: select by fields of the problem

Calls on several streams or by several threads run one after another if they use the same kernel. The operator has no
gradient. Use it for inference, or inside your own autograd.Function.
"""

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent
_DISPATCH = json.loads((FOLDER / "dispatch.json").read_text(encoding="utf-8"))


@cache
def _module(folder: str) -> Any:
    """Return the operator module in the folder of one kernel. The kernel itself is loaded at the first call."""
    spec = importlib.util.spec_from_file_location(f"{__name__}_{folder}", FOLDER / folder / "torch_op.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _listed(kernels: Sequence[dict[str, Any]]) -> str:
    return "; ".join(", ".join(f"{name}={value}" for name, value in each["problem"].items()) for each in kernels)


def _picked(kernels: Sequence[dict[str, Any]], inputs: Sequence[torch.Tensor]) -> Any:
    """Return the operator of the kernel that was compiled for tensors of these shapes and dtypes.

    Raises:
        LookupError: no kernel, or more than one kernel, matches the tensors.
    """
    found = [each for each in kernels if _module(each["folder"]).fits(*inputs)]
    if len(found) == 1:
        return _module(found[0]["folder"]).op
    asked = ", ".join(f"{tuple(each.shape)} {each.dtype}" for each in inputs)
    if found:
        raise LookupError(f"{len(found)} kernels fit {asked}; select one with op_for(field=value): {_listed(found)}")
    raise LookupError(f"no kernel for {asked}; available kernels: {_listed(kernels)}")


@cache
def op_for(**fields: Any) -> Any:
    """Return an operator that selects only among kernels whose problem has these field values.

    Raises:
        LookupError: no kernel's problem has these field values.
    """
    kernels = [each for each in _DISPATCH["kernels"] if fields.items() <= each["problem"].items()]
    if not kernels:
        asked = ", ".join(f"{name}={value}" for name, value in fields.items())
        raise LookupError(f"no kernel for {asked}; available kernels: {_listed(_DISPATCH['kernels'])}")

    def run(*inputs: torch.Tensor) -> Any:
        return _picked(kernels, inputs)(*inputs)

    first = _module(kernels[0]["folder"])
    digest = hashlib.sha256(json.dumps(kernels, sort_keys=True).encode()).hexdigest()[:12]
    name = f"kernel_evo::{''.join(c if c.isalnum() else '_' for c in _DISPATCH['family'])}_{digest}"
    made = torch.library.custom_op(name, run, mutates_args=first.CHANGED, schema=first.SCHEMA)
    made.register_fake(run)
    return made


op = op_for()
