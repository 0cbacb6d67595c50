"""Causal depthwise convolution over time with SiLU, as in state-space models."""

import torch
from torch import nn

batch = 8
channels = 2048
length = 2048


class Model(nn.Module):
    """Four taps per channel, a bias, and SiLU."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 4, groups=channels, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.silu(self.conv(x)[..., : x.shape[-1]])


def get_inputs() -> list[object]:
    return [torch.randn(batch, channels, length)]


def get_init_inputs() -> list[object]:
    return [channels]
