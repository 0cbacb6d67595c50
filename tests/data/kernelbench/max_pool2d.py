import torch
from torch import nn


class Model(nn.Module):
    """Largest value of a padded window."""

    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.op = nn.MaxPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.op(x)


batch_size = 8
channels = 16
height = 64
width = 48
kernel_size = 4


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [kernel_size, 1, 1]
