"""Rotary position embedding of queries, which rotates the two halves of a head."""

import torch
from torch import nn

batch = 4
heads = 32
length = 2048
half = 64


class Model(nn.Module):
    """Rotate the two halves of each head by angles that depend on the position."""

    def forward(self, q: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        first, second = q[..., : q.shape[-1] // 2], q[..., q.shape[-1] // 2 :]
        return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def get_inputs() -> list[object]:
    angles = torch.arange(length)[:, None] / 10000.0 ** (torch.arange(half) / half)
    return [torch.randn(batch, heads, length, 2 * half), torch.cos(angles), torch.sin(angles)]


def get_init_inputs() -> list[object]:
    return []
