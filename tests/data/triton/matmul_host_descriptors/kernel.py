import triton
import triton.language as tl


@triton.jit
def matmul(a_desc, b_desc, c_desc, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    across = tl.cdiv(N, BLOCK_N)
    row, col = (tl.program_id(0) // across) * BLOCK_M, (tl.program_id(0) % across) * BLOCK_N
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for depth in range(0, K, BLOCK_K):
        sums = tl.dot(a_desc.load([row, depth]), b_desc.load([depth, col]), sums)
    c_desc.store([row, col], sums.to(tl.float16))
