"""Depthwise convolution over images."""

import torch
from torch import nn

batch = 16
channels = 64
height = 128
width = 128


class Model(nn.Module):
    """A 3 × 3 filter for each channel, without padding."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, groups=channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs() -> list[object]:
    return [torch.rand(batch, channels, height, width)]


def get_init_inputs() -> list[object]:
    return [channels]
