import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, out_ptr, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr, ROWS_AT_ONCE: tl.constexpr):
    rows = tl.program_id(0) * ROWS_AT_ONCE + tl.arange(0, ROWS_AT_ONCE)
    cols = tl.arange(0, BLOCK)
    here = rows[:, None].to(tl.int64) * COLS + cols[None, :]
    mask = (rows[:, None] < ROWS) & (cols[None, :] < COLS)
    x = tl.load(x_ptr + here, mask=mask, other=-float("inf"))
    largest = tl.max(x, axis=1)
    powers = tl.exp(x - largest[:, None])
    tl.store(out_ptr + here, powers / tl.sum(powers, axis=1)[:, None], mask=mask)
