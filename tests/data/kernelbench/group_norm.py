import torch
from torch import nn


class Model(nn.Module):
    """Group normalisation."""

    def __init__(self, features, groups):
        super().__init__()
        self.op = nn.GroupNorm(groups, features)

    def forward(self, x):
        return self.op(x)


batch_size = 8
features = 32
height = 32
width = 32


def get_inputs():
    return [torch.rand(batch_size, features, height, width)]


def get_init_inputs():
    return [features, 4]
