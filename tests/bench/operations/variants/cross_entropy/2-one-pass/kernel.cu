__device__ __forceinline__ void join(float &largest, float &sum, float other, float others)
{
    float top = fmaxf(largest, other);
    sum = sum * __expf(largest - top) + others * __expf(other - top);
    largest = top;
}

extern "C" __global__ void __launch_bounds__(THREADS) kernel(const float *logits, const long long *labels, float *out)
{
    __shared__ float tops[32], sums[32];
    const float *row = logits + (long)blockIdx.x * CLASSES;
    float largest = -3.0e38f, sum = 0.0f;
#if CLASSES % 4 == 0
#pragma unroll AHEAD
    for (int i = threadIdx.x; i < CLASSES / 4; i += THREADS) {
        float4 v = ((const float4 *)row)[i];
        float top = fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
        if (top > largest) {
            sum *= __expf(largest - top);
            largest = top;
        }
        sum += __expf(v.x - largest) + __expf(v.y - largest) + __expf(v.z - largest) + __expf(v.w - largest);
    }
#else
#pragma unroll AHEAD
    for (int i = threadIdx.x; i < CLASSES; i += THREADS)
        join(largest, sum, row[i], 1.0f);
#endif
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, largest, step), others = __shfl_xor_sync(0xffffffffu, sum, step);
        join(largest, sum, other, others);
    }
    if (threadIdx.x % 32 == 0)
        tops[threadIdx.x / 32] = largest, sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; warp++)
            join(largest, sum, tops[warp], sums[warp]);
        out[blockIdx.x] = __logf(sum) + (largest - row[labels[blockIdx.x]]);
    }
}
