import triton
import triton.language as tl

EPSILON = tl.constexpr(1e-6)


@triton.jit
def rms_norm(x_ptr, weight_ptr, out_ptr, COLS, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLS
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, COLS, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < COLS, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares) / COLS + EPSILON)
    for start in range(0, COLS, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < COLS, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < COLS, other=0.0).to(tl.float32)
        tl.store(out_ptr + row + cols, x * scale * weight, mask=cols < COLS)
