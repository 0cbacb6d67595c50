import torch
from torch import nn


class Model(nn.Module):
    """Product of a diagonal matrix, given as a vector, and a matrix."""

    def forward(self, A, B):
        return torch.diag(A) @ B


M = 384
N = 512


def get_inputs():
    return [torch.rand(N), torch.rand(N, M)]


def get_init_inputs():
    return []
