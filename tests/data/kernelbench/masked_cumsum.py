import torch
from torch import nn


class Model(nn.Module):
    """Sums of the elements that a mask selects."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x, mask):
        return torch.cumsum(x * mask, dim=self.dim)


batch_size = 64
input_shape = (2048,)


def get_inputs():
    x = torch.rand(batch_size, *input_shape)
    return [x, torch.randint(0, 2, x.shape).bool()]


def get_init_inputs():
    return [1]
