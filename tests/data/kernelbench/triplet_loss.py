import torch
from torch import nn


class Model(nn.Module):
    """Triplet margin loss."""

    def __init__(self, margin):
        super().__init__()
        self.op = nn.TripletMarginLoss(margin=margin)

    def forward(self, anchor, positive, negative):
        return self.op(anchor, positive, negative)


batch_size = 256
input_shape = (512,)


def get_inputs():
    shape = (batch_size, *input_shape)
    return [torch.rand(shape) * torch.rand(()), torch.rand(shape), torch.rand(shape)]


def get_init_inputs():
    return [1.0]
