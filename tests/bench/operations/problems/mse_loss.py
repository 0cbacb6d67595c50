"""Mean squared error of two matrices."""

import torch
from torch import nn

rows = 4096
cols = 4096


class Model(nn.Module):
    """Mean of squared differences."""

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.mean((predictions - targets) ** 2)


def get_inputs() -> list[object]:
    return [torch.rand(rows, cols), torch.rand(rows, cols)]


def get_init_inputs() -> list[object]:
    return []
