import torch
from torch import nn


class Model(nn.Module):
    """Transposed convolution with a kernel, stride and padding that differ by axis."""

    def __init__(self, channels, kernels, kernel_size, stride, padding):
        super().__init__()
        self.op = nn.ConvTranspose2d(channels, kernels, kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.op(x)


batch_size = 4
in_channels = 16
out_channels = 8
height = 24
width = 40


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, (3, 5), (2, 3), (1, 2)]
