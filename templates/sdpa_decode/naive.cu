// Simple attention of few queries: one block per query row, scores in device memory, no sharing of keys between heads.
// This baseline needs no library. S, D, GROUP (query rows of a head of the cache), QUERIES (queries of a query head, of
// which the first does not see the last QUERIES - 1 keys), ENTRY (query rows of a batch entry), SCALE and BFLOATS are
// macros. `lengths`: keys of each batch entry.
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

extern "C" __global__ void attention(const Number* q, const Number* k, const Number* v, const int* lengths, float* weights,
                                     Number* out) {
    __shared__ float place[128];
    const long long row = blockIdx.x, cache = row / GROUP * S * D;
    float* scores = weights + row * S;
    const int seen = lengths[row / ENTRY] - (QUERIES - 1) + row % QUERIES;
    float largest = -3e38f, total = 0;
    for (int key = threadIdx.x; key < seen; key += blockDim.x) {
        float score = 0;
        for (int d = 0; d < D; ++d)
            score += float(q[row * D + d]) * float(k[cache + (long long)key * D + d]);
        scores[key] = score * SCALE;
        largest = fmaxf(largest, scores[key]);
    }
    largest = over_block(largest, place, true);
    for (int key = threadIdx.x; key < seen; key += blockDim.x) total += scores[key] = __expf(scores[key] - largest);
    total = over_block(total, place, false);
    for (int d = threadIdx.x; d < D; d += blockDim.x) {
        float sum = 0;
        for (int key = 0; key < seen; ++key) sum += scores[key] * float(v[cache + (long long)key * D + d]);
        out[row * D + d] = Number(sum / total);
    }
}
