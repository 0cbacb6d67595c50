import triton
import triton.language as tl


@triton.jit
def place(M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    """Return the tile of this program: groups of GROUP rows of tiles share columns of b in the cache."""
    program, down, across = tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = program // (GROUP * across) * GROUP
    size = min(down - first, GROUP)
    within = program % (GROUP * across)
    return first + within % size, within // size


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    down, across = place(M, N, BLOCK_M, BLOCK_N, GROUP)
    rows, cols, depth = down * BLOCK_M + tl.arange(0, BLOCK_M), across * BLOCK_N + tl.arange(0, BLOCK_N), 0
    step = tl.arange(0, BLOCK_K)
    a = a_ptr + rows[:, None] * K + step[None, :]
    b = b_ptr + step[:, None] * N + cols[None, :]
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for depth in range(0, K, BLOCK_K):
        left = tl.load(a, mask=(rows[:, None] < M) & (step[None, :] < K - depth), other=0.0)
        right = tl.load(b, mask=(step[:, None] < K - depth) & (cols[None, :] < N), other=0.0)
        sums = tl.dot(left, right, sums)
        a += BLOCK_K
        b += BLOCK_K * N
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], sums.to(tl.float16), mask=mask)
