"""Linear layer for few tokens, with int8 weights and a scale per output."""

import torch
from torch import nn

tokens = 4
inner = 4096
outer = 11008


class Model(nn.Module):
    """Multiply by dequantised weights."""

    def forward(self, x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return x @ (weight.to(x.dtype) * scale[:, None]).T


def get_inputs() -> list[object]:
    weight = torch.randint(-127, 128, (outer, inner), dtype=torch.int8)
    return [torch.randn(tokens, inner), weight, torch.rand(outer) / 127]


def get_init_inputs() -> list[object]:
    return []
