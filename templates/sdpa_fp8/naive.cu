// Simple attention on E4M3: one block per query row, scores in shared memory, no tensor cores. This baseline needs no
// library. S, D, CAUSAL, SCALE and V_TRANSPOSED are macros; the elements of out are halves.
#include <cuda_fp16.h>

typedef unsigned char u8;

// Converts E4M3: shifted to the fields of FP16, the bits are a number whose exponent is too low by 8.
__device__ float number(u8 code) {
    const unsigned short bits = (code & 0x80) << 8 | (code & 0x7f) << 7;
    return __half2float(__ushort_as_half(bits)) * 256.f;
}

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

extern "C" __global__ void attention(const u8* q, const u8* k, const u8* v, const float* q_scale,
                                     const float* k_scale, const float* v_scale, __half* out) {
    extern __shared__ float scores[];  // S scores
    __shared__ float place[128];
    const int head = blockIdx.x / S, row = blockIdx.x % S, keys = CAUSAL ? row + 1 : S;
    const long long start = (long long)head * S * D;
    const float scale = q_scale[head] * k_scale[head] * SCALE;
    float largest = -3e38f, total = 0;
    for (int key = threadIdx.x; key < keys; key += blockDim.x) {
        float score = 0;
        for (int d = 0; d < D; ++d) score += number(q[start + row * D + d]) * number(k[start + (long long)key * D + d]);
        scores[key] = score * scale;
        largest = fmaxf(largest, scores[key]);
    }
    largest = over_block(largest, place, true);
    for (int key = threadIdx.x; key < keys; key += blockDim.x) total += scores[key] = __expf(scores[key] - largest);
    total = over_block(total, place, false);
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float sum = 0;
        for (int key = 0; key < keys; ++key)
            sum += scores[key] * number(v[start + (V_TRANSPOSED ? (long long)d * S + key : (long long)key * D + d)]);
        out[start + row * D + d] = __float2half(sum / total * v_scale[head]);
    }
}
