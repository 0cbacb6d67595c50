__device__ __forceinline__ float summed(float value)
{
    __shared__ float parts[33];
    for (int step = 16; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int warp = 0; warp < (int)blockDim.x / 32; warp++)
            total += parts[warp];
        parts[32] = total;
    }
    __syncthreads();
    return parts[32];
}

#define N ((long)ROWS * COLS)

__device__ float partial[BLOCKS];

__device__ __forceinline__ float square(float a, float b) { return (a - b) * (a - b); }

extern "C" __global__ void __launch_bounds__(THREADS) partial_sums(const float *predictions, const float *targets)
{
    const long step = (long)BLOCKS * THREADS;
    const long first = (long)blockIdx.x * THREADS + threadIdx.x;
    float sum = 0.0f;
#if ROWS * COLS % 4 == 0
    const float4 *a = (const float4 *)predictions, *b = (const float4 *)targets;
#pragma unroll AHEAD
    for (long i = first; i < N / 4; i += step) {
        float4 p = a[i], t = b[i];
        sum += square(p.x, t.x) + square(p.y, t.y) + square(p.z, t.z) + square(p.w, t.w);
    }
#else
#pragma unroll AHEAD
    for (long i = first; i < N; i += step)
        sum += square(predictions[i], targets[i]);
#endif
    sum = summed(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(THREADS) total(float *out)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < BLOCKS; i += THREADS)
        sum += partial[i];
    sum = summed(sum);
    if (threadIdx.x == 0)
        out[0] = sum / ((float)ROWS * COLS);
}
