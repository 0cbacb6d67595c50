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

#if HIDDEN % 4 == 0
#define WIDTH 4
typedef float4 Piece;
#else
#define WIDTH 1
struct Piece { float x; };
#endif
#define PIECES (HIDDEN / WIDTH)
#define TURNS ((PIECES + THREADS - 1) / THREADS)

__device__ __forceinline__ void store(Piece *to, Piece piece)
{
#if STREAM && WIDTH == 4
    __stcs(to, piece);
#else
    *to = piece;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
kernel(const float *x, const float *residual, const float *weight, float *out0, float *out1)
{
    const long start = (long)blockIdx.x * HIDDEN;
    const Piece *a = (const Piece *)(x + start), *b = (const Piece *)(residual + start), *w = (const Piece *)weight;
    Piece *normed = (Piece *)(out0 + start), *total = (Piece *)(out1 + start);
    Piece kept[TURNS];
    float sum = 0.0f;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int i = turn * THREADS + threadIdx.x;
        if (i < PIECES) {
            Piece one = a[i], other = b[i];
#pragma unroll
            for (int part = 0; part < WIDTH; part++) {
                float added = ((float *)&one)[part] + ((float *)&other)[part];
                ((float *)&kept[turn])[part] = added;
                sum += added * added;
            }
            store(total + i, kept[turn]);
        }
    }
    float scale = 1.0f / sqrtf(summed(sum) / HIDDEN + 1e-6f);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int i = turn * THREADS + threadIdx.x;
        if (i < PIECES) {
            Piece by = w[i];
#pragma unroll
            for (int part = 0; part < WIDTH; part++)
                ((float *)&kept[turn])[part] *= scale * ((float *)&by)[part];
            store(normed + i, kept[turn]);
        }
    }
}
