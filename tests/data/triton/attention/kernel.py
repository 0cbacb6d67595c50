import triton
import triton.language as tl


@triton.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, S, D: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    head = tl.program_id(1).to(tl.int64) * S * D
    rows, across = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q), tl.arange(0, D)
    tile = rows[:, None] * D + across[None, :]
    q = tl.load(q_ptr + head + tile, mask=rows[:, None] < S, other=0.0)
    scale = 1.4426950408889634 / tl.sqrt(tl.cast(D, tl.float32))
    largest = tl.full([BLOCK_Q], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_Q], tl.float32)
    sums = tl.zeros([BLOCK_Q, D], tl.float32)
    for start in range(0, S, BLOCK_K):
        keys = start + tl.arange(0, BLOCK_K)
        k = tl.load(k_ptr + head + keys[None, :] * D + across[:, None], mask=keys[None, :] < S, other=0.0)
        v = tl.load(v_ptr + head + keys[:, None] * D + across[None, :], mask=keys[:, None] < S, other=0.0)
        scores = tl.where(keys[None, :] < S, tl.dot(q, k) * scale, -float("inf"))
        peak = tl.maximum(largest, tl.max(scores, axis=1))
        powers = tl.exp2(scores - peak[:, None])
        kept = tl.exp2(largest - peak)
        total = total * kept + tl.sum(powers, axis=1)
        sums = tl.dot(powers.to(tl.float16), v, sums * kept[:, None])
        largest = peak
    tl.store(out_ptr + head + tile, (sums / total[:, None]).to(tl.float16), mask=rows[:, None] < S)
