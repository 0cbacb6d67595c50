#define N ((long)ROWS * COLS)

__device__ __forceinline__ float gelu(float v)
{
    float u = 1.5957691216f * (v + 0.044715f * v * v * v);
    return v / (1.0f + __expf(-u));
}

extern "C" __global__ void __launch_bounds__(THREADS) kernel(const float *x, float *out)
{
    const long quads = (N + 3) / 4;
    const long first = (long)blockIdx.x * THREADS * ITEMS + threadIdx.x;
#if ROWS * COLS % 4 == 0
    float4 kept[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        long quad = first + (long)item * THREADS;
        if (quad < quads)
            kept[item] = ((const float4 *)x)[quad];
    }
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        long quad = first + (long)item * THREADS;
        if (quad < quads) {
            float4 v = kept[item];
            v.x = gelu(v.x), v.y = gelu(v.y), v.z = gelu(v.z), v.w = gelu(v.w);
#if STREAM
            __stcs((float4 *)out + quad, v);
#else
            ((float4 *)out)[quad] = v;
#endif
        }
    }
#else
    for (int item = 0; item < ITEMS; item++) {
        long quad = first + (long)item * THREADS;
        for (long i = 4 * quad; i < 4 * quad + 4 && i < N; i++)
            out[i] = gelu(x[i]);
    }
#endif
}
