"""Inputs, reference, yardstick and baselines for the cross entropy of rows of logits.

Only runners execute this file.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from evo.reference import Array, Arrays
from evo.reference.encoding import decoded, encoded
from evo.reference.rivals import rivals
from evo.reference.rows import by_rows, logit_rows
from evo.reference.torch_baselines import tensor_of, torch_on_cpu, torch_on_gpu

IGNORED = -100


def inputs(problem: Mapping[str, Any], distribution: str, rng: np.random.Generator) -> dict[str, Array]:
    """Draw logits `x` of shape (rows, cols), and target columns of shape (rows,).

    Targets include the first and the last column, but no masked column. Some targets are `IGNORED`; the loss of these
    rows is 0. `logit_rows` defines the distributions.
    """
    rows, columns = problem["rows"], problem["cols"]
    x = logit_rows(rng, (rows, columns), distribution)
    target = rng.integers(columns, size=rows).astype(np.int32)
    target[: min(2, rows)] = [0, columns - 1][: min(2, rows)]
    if distribution == "peaked":
        x[range(rows), target] = np.maximum(x[range(rows), target], -1.0)
    target[3::7] = IGNORED
    return {"x": encoded(x, problem["dtype"]), "target": target}


def reference(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the expected `loss` and `lse` (the log-sum-exp), both of shape (rows,), computed in float64."""
    return _losses(problem, inputs, np.float64)


def yardstick(problem: Mapping[str, Any], inputs: Arrays) -> dict[str, Array]:
    """Return the results, computed in float32. Kernel errors are compared with the errors of these results."""
    return _losses(problem, inputs, np.float32)


def baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return CPU baselines by name. A baseline takes the inputs and returns the function whose calls are timed.

    ``numpy`` computes the plain formula. ``torch`` uses ``OMP_NUM_THREADS`` threads, or one thread if the variable is
    not set.
    """

    def with_torch(inputs: Arrays) -> Callable[[], object]:
        torch = torch_on_cpu()
        return partial(_of_torch, tensor_of(inputs["x"], problem["dtype"]), torch.from_numpy(inputs["target"]).long())

    return {"numpy": lambda inputs: partial(yardstick, problem, inputs), "torch": with_torch}


def cuda_baselines(problem: Mapping[str, Any]) -> dict[str, Callable[[Arrays], Callable[[], object]]]:
    """Return GPU baselines: PyTorch's cross entropy, eager and compiled, with int64 targets."""

    def on_gpu(inputs: Arrays, *, compiled: bool) -> Callable[[], object]:
        torch = torch_on_gpu()
        x = tensor_of(inputs["x"], problem["dtype"]).cuda()
        target = torch.from_numpy(inputs["target"]).long().cuda()
        return partial(torch.compile(_of_torch) if compiled else _of_torch, x, target)

    on_torch = {"torch": partial(on_gpu, compiled=False), "torch-compile": partial(on_gpu, compiled=True)}
    return {**on_torch, **rivals("cross_entropy", problem)}


def _of_torch(x: Any, target: Any) -> object:
    import torch

    return torch.nn.functional.cross_entropy(x, target, reduction="none")


def _losses(problem: Mapping[str, Any], inputs: Arrays, dtype: Any) -> dict[str, Array]:
    @by_rows
    def of_rows(problem: Mapping[str, Any], matrices: Arrays) -> dict[str, Array]:
        x = decoded(matrices["x"], problem["dtype"]).astype(dtype)
        top = x.max(axis=-1, keepdims=True)
        return {"lse": (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[:, 0]}

    lse = of_rows(problem, {"x": inputs["x"]})["lse"]
    target = inputs["target"]
    counted = (target >= 0) & (target < problem["cols"])
    rows = np.arange(len(target))
    chosen = decoded(inputs["x"][rows, np.where(counted, target, 0)], problem["dtype"]).astype(dtype)
    return {"loss": np.where(counted, lse - chosen, dtype(0)), "lse": lse}
