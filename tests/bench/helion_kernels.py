"""Helion kernels for the operations of Triton's tutorials, and a command that tunes them.

The file is copied into the folder of an imported tutorial, next to `reference.py`:

    HELION_AUTOTUNE_BUDGET_SECONDS=60 python helion_kernels.py KERNEL PROBLEM

tunes a kernel for a problem (JSON) with Helion's autotuner, and stores the config in helion.json. The autotuner starts
processes that import this file again, so the search runs only if the file is the main program.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import helion
import helion.language as hl
import torch


@helion.kernel()
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for part in hl.tile(out.size()):
        out[part] = x[part] + y[part]
    return out


@helion.kernel()
def softmax(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for rows in hl.tile(x.size(0)):
        out[rows, :] = torch.softmax(x[rows, :], dim=1)
    return out


@helion.kernel()
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    (m, k), n = a.size(), b.size(1)
    out = torch.empty([m, n], dtype=a.dtype, device=a.device)
    for rows, columns in hl.tile([m, n]):
        total = hl.zeros([rows, columns], dtype=torch.float32)
        for depth in hl.tile(k):
            total = torch.addmm(total, a[rows, depth], b[depth, columns])
        out[rows, columns] = total.to(out.dtype)
    return out


@helion.kernel()
def layer_norm(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    y = torch.empty_like(x)
    means = torch.empty([x.size(0)], dtype=torch.float32, device=x.device)
    scales = torch.empty_like(means)
    for rows in hl.tile(x.size(0)):
        wide = x[rows, :].to(torch.float32)
        mean = torch.mean(wide, dim=-1)
        centred = wide - mean[:, None]
        scale = torch.rsqrt(torch.mean(centred * centred, dim=-1) + eps)
        normal = centred * scale[:, None]
        y[rows, :] = (normal * weight[:].to(torch.float32) + bias[:].to(torch.float32)).to(y.dtype)
        means[rows], scales[rows] = mean, scale
    return y, means, scales


LOG2_E = 1.4426950408889634


@helion.kernel()
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the attention output, and the base-2 logarithm of the softmax's denominator. `q` is (heads, rows, D)."""
    heads, queries, size = q.size()
    keys, depth = k.size(1), hl.specialize(size)
    transposed = k.transpose(1, 2)
    out = torch.empty_like(q)
    logarithms = torch.empty([heads, queries], dtype=torch.float32, device=q.device)
    factor = scale * LOG2_E
    for some, rows in hl.tile([heads, queries]):
        largest = hl.full([some, rows], float("-inf"), dtype=torch.float32)
        total = torch.zeros_like(largest)
        result = hl.zeros([some, rows, depth], dtype=torch.float32)
        mine = q[some, rows, :]
        for columns in hl.tile(keys):
            scores = torch.bmm(mine, transposed[some, :, columns]).to(torch.float32) * factor
            raised = torch.maximum(largest, torch.amax(scores, dim=-1))
            weights = torch.exp2(scores - raised[:, :, None])
            shrink = torch.exp2(largest - raised)
            total = total * shrink + torch.sum(weights, dim=-1)
            result = torch.baddbmm(result * shrink[:, :, None], weights.to(v.dtype), v[some, columns, :])
            largest = raised
        out[some, rows, :] = (result / total[:, :, None]).to(out.dtype)
        logarithms[some, rows] = largest + torch.log2(total)
    return out, logarithms


def main(kernel: str, problem: Mapping[str, Any]) -> None:
    import numpy as np
    import reference  # type: ignore[import-not-found]

    tensors = reference.on_gpu(reference.inputs(problem, "normal", np.random.default_rng(0)))
    globals()[kernel].autotune(reference.helion_arguments(problem, tensors), force=True).save("helion.json")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
