import torch
from torch import nn


class Model(nn.Module):
    """Attention whose inputs are drawn on a GPU."""

    def forward(self, q, k, v):
        scale = torch.ones((), device=q.device, dtype=q.dtype)
        return nn.functional.scaled_dot_product_attention(q, k, v) * scale.to("cuda")


batch_size = 2
heads = 4
length = 64
width = 32


def get_inputs():
    shape = (batch_size, heads, length, width)
    drawn = [torch.rand(shape, device="cuda", dtype=torch.float16) for _ in range(2)]
    return [*drawn, torch.rand(shape, dtype=torch.float16).cuda()]


def get_init_inputs():
    return []
