import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, COLS, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLS
    sums = tl.zeros([BLOCK], tl.float32)
    for start in range(0, COLS, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + row + cols, mask=cols < COLS, other=0.0).to(tl.float32)
    mean = tl.sum(sums) / COLS
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, COLS, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < COLS, other=0.0).to(tl.float32)
        squares += tl.where(cols < COLS, (x - mean) * (x - mean), 0.0)
    scale = tl.rsqrt(tl.sum(squares) / COLS + 1e-5)
    for start in range(0, COLS, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < COLS
        x = tl.load(x_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(out_ptr + row + cols, (x - mean) * scale * weight + bias, mask=mask)
