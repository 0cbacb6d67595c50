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

#if COLS % 4 == 0
typedef float4 Piece;
#define WIDTH 4
__device__ __forceinline__ float squares(float4 v) { return v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }
__device__ __forceinline__ float4 scaled(float4 v, float s) { return make_float4(v.x * s, v.y * s, v.z * s, v.w * s); }
#else
typedef float Piece;
#define WIDTH 1
__device__ __forceinline__ float squares(float v) { return v * v; }
__device__ __forceinline__ float scaled(float v, float s) { return v * s; }
#endif
#define PIECES (COLS / WIDTH)
#define TURNS ((PIECES + THREADS - 1) / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS) kernel(const float *x, float *out)
{
    const Piece *row = (const Piece *)(x + (long)blockIdx.x * COLS);
    Piece *to = (Piece *)(out + (long)blockIdx.x * COLS);
    Piece kept[TURNS];
    float sum = 0.0f;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int i = turn * THREADS + threadIdx.x;
        if (i < PIECES) {
            kept[turn] = row[i];
            sum += squares(kept[turn]);
        }
    }
    float scale = 1.0f / sqrtf(summed(sum));
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int i = turn * THREADS + threadIdx.x;
        if (i < PIECES) {
#if STREAM
            __stcs(to + i, scaled(kept[turn], scale));
#else
            to[i] = scaled(kept[turn], scale);
#endif
        }
    }
}
