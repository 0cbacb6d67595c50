import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    across = tl.cdiv(N, BLOCK_N)
    row, col = (tl.program_id(0) // across) * BLOCK_M, (tl.program_id(0) % across) * BLOCK_N
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for depth in range(0, K, BLOCK_K):
        sums = tl.dot(a.load([row, depth]), b.load([depth, col]), sums)
    c.store([row, col], sums.to(tl.float16))
