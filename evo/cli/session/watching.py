"""Runs a PyTorch program and records the calls that a family can compute."""

import runpy
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evo.errors import EvoError, NotFound
from evo.search.suite.recorder import FUNCTIONS, Recorder


def watch(script: Path, arguments: Sequence[str]) -> tuple[Recorder, str | None]:
    """Run a script like `python SCRIPT ARGUMENTS…`, and record its calls of the PyTorch functions in `FUNCTIONS`.

    Returns:
        The recorded calls, and the reason why the script failed (None if the script succeeded).

    Raises:
        NotFound: there is no such file.
        EvoError: PyTorch is not installed.
    """
    if not script.is_file():
        raise NotFound(f"there is no file {script}; choose a Python program that uses PyTorch")
    recorder = Recorder()
    with watched(recorder, _torch()), _as_program(script, arguments):
        try:
            runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ended:
            return recorder, None if ended.code in (None, 0) else f"it exited with {ended.code}"
        except Exception as error:  # noqa: BLE001 — a program may raise anything
            return recorder, f"{type(error).__name__}: {error}"
    return recorder, None


@dataclass(frozen=True)
class _Contiguous:
    """Shape and dtype of a tensor that a module will compute. The tensor is treated as contiguous."""

    shape: tuple[int, ...]
    dtype: object

    def is_contiguous(self) -> bool:
        return True

    def transpose(self, _dim0: int, _dim1: int, /) -> "_Contiguous":
        raise NotImplementedError


@contextmanager
def watched(recorder: Recorder, torch: Any) -> Iterator[None]:
    """Context manager that records calls of the functions of `torch.nn.functional` in `FUNCTIONS` in this thread.

    Modules that compute the same without these functions are recorded when they are called: modules whose class name
    ends in ``RMSNorm``, except PyTorch's own, as ``rms_norm``; modules with ``gate_proj``, ``up_proj`` and
    ``down_proj`` as ``swiglu``.
    """
    functional, own = torch.nn.functional, getattr(torch.nn, "RMSNorm", None)
    names: Mapping[Any, str] = {getattr(functional, name): name for name in FUNCTIONS if hasattr(functional, name)}

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Callable[..., Any], _types: Any, args: Sequence[Any] = (), kwargs: Any = None
        ) -> Any:
            if (name := names.get(function)) is not None:
                recorder.observe(name, args, kwargs or {})
            return function(*args, **(kwargs or {}))

    def before(module: Any, inputs: Sequence[Any]) -> None:
        if type(module).__name__.endswith("RMSNorm") and type(module) is not own and inputs:
            weight = getattr(module, "weight", None)
            recorder.observe("rms_norm", (inputs[0], tuple(getattr(weight, "shape", ())), weight), {})
        if inputs and all(hasattr(module, name) for name in ("gate_proj", "up_proj", "down_proj")):
            cols = getattr(module.gate_proj, "out_features", 0)
            gate = _Contiguous((*inputs[0].shape[:-1], cols), inputs[0].dtype)
            recorder.observe("swiglu", (gate, gate), {})

    hook = torch.nn.modules.module.register_module_forward_pre_hook(before)
    try:
        with Mode():
            yield
    finally:
        hook.remove()


@contextmanager
def _as_program(script: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Context manager that sets `sys.argv` and `sys.path` as for running the script."""
    before, path = sys.argv, list(sys.path)
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise EvoError("recording a program's calls needs PyTorch, which is not installed: pip install torch") from None
    return torch
