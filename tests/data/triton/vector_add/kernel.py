import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, N, BLOCK: tl.constexpr):
    here = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = here < N
    tl.store(out_ptr + here, tl.load(x_ptr + here, mask=mask) + tl.load(y_ptr + here, mask=mask), mask=mask)
