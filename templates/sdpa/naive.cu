// Simple attention: one block per query row, scores in shared memory, no tensor cores. This baseline needs no library.
// S, KEYS, D, HEADS, HEADS_PER_KV, CAUSAL, WINDOW, SCALE, SOFTCAP (0: none) and BFLOATS are macros. `slopes`: slope of
// ALiBi for each head.
#if BFLOATS
#include <cuda_bf16.h>
typedef __nv_bfloat16 Number;
#else
#include <cuda_fp16.h>
typedef __half Number;
#endif

__device__ float over_block(float x, float* place, bool maximum) {
    place[threadIdx.x] = x;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) {
            const float other = place[threadIdx.x + step];
            place[threadIdx.x] = maximum ? fmaxf(place[threadIdx.x], other) : place[threadIdx.x] + other;
        }
        __syncthreads();
    }
    const float result = place[0];
    __syncthreads();
    return result;
}

extern "C" __global__ void attention(const Number* q, const Number* k, const Number* v, const int* lengths, const float* slopes,
                                     Number* out) {
    extern __shared__ float scores[];  // KEYS scores
    __shared__ float place[128];
    const int row = blockIdx.x % S, length = lengths[blockIdx.x / S / HEADS];
    const int keys = CAUSAL ? min(length, row + 1 + KEYS - S) : length, first = WINDOW ? max(0, keys - WINDOW) : 0;
    const long long head = (long long)(blockIdx.x / S) * S * D, cache = (long long)(blockIdx.x / S / HEADS_PER_KV) * KEYS * D;
    float largest = -3e38f, total = 0;
    for (int key = first + threadIdx.x; key < keys; key += blockDim.x) {
        float score = 0;
        for (int d = 0; d < D; ++d)
            score += float(q[head + row * D + d]) * float(k[cache + (long long)key * D + d]);
        score *= SCALE;
        if (SOFTCAP > 0) score = SOFTCAP * tanhf(score / SOFTCAP);
        scores[key] = score - slopes[blockIdx.x / S % HEADS] * abs(row + KEYS - S - key);
        largest = fmaxf(largest, scores[key]);
    }
    largest = over_block(largest, place, true);
    for (int key = first + threadIdx.x; key < keys; key += blockDim.x) total += scores[key] = __expf(scores[key] - largest);
    total = over_block(total, place, false);
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float sum = 0;
        for (int key = first; key < keys; ++key) sum += scores[key] * float(v[cache + (long long)key * D + d]);
        out[head + row * D + d] = Number(sum / total);
    }
}
