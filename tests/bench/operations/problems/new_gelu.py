"""GELU approximated with tanh, in elementary operations."""

import math

import torch
from torch import nn

rows = 4096
cols = 4096


class Model(nn.Module):
    """GELU, approximated with tanh."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def get_inputs() -> list[object]:
    return [torch.randn(rows, cols)]


def get_init_inputs() -> list[object]:
    return []
