import torch
from torch import nn


class Model(nn.Module):
    """Convolution over three axes with a bias."""

    def __init__(self, channels, kernels, kernel_size):
        super().__init__()
        self.op = nn.Conv3d(channels, kernels, kernel_size)

    def forward(self, x):
        return self.op(x)


batch_size = 2
in_channels = 3
out_channels = 8
depth = 8
height = 16
width = 20


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, (3, 5, 7)]
