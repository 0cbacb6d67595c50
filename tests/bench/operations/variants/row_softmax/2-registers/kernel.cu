__device__ __forceinline__ float reduced(float value, bool largest)
{
    __shared__ float parts[33];
    for (int step = 16; step > 0; step /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, value, step);
        value = largest ? fmaxf(value, other) : value + other;
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = parts[0];
        for (int warp = 1; warp < (int)blockDim.x / 32; warp++)
            total = largest ? fmaxf(total, parts[warp]) : total + parts[warp];
        parts[32] = total;
    }
    __syncthreads();
    return parts[32];
}

#if COLS % 4 == 0
#define WIDTH 4
typedef float4 Piece;
#else
#define WIDTH 1
struct Piece { float x; };
#endif
#define PIECES (COLS / WIDTH)
#define TURNS ((PIECES + THREADS - 1) / THREADS)

extern "C" __global__ void __launch_bounds__(THREADS) kernel(const float *x, float *out)
{
    const Piece *row = (const Piece *)(x + (long)blockIdx.x * COLS);
    Piece *to = (Piece *)(out + (long)blockIdx.x * COLS);
    float kept[TURNS * WIDTH];
    float largest = -3.4e38f;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int i = turn * THREADS + threadIdx.x;
        if (i < PIECES) {
            Piece piece = row[i];
#pragma unroll
            for (int part = 0; part < WIDTH; part++) {
                kept[turn * WIDTH + part] = ((float *)&piece)[part];
                largest = fmaxf(largest, ((float *)&piece)[part]);
            }
        }
    }
    largest = reduced(largest, true);
    float sum = 0.0f;
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        if (turn * THREADS + (int)threadIdx.x < PIECES) {
#pragma unroll
            for (int part = 0; part < WIDTH; part++) {
                kept[turn * WIDTH + part] = __expf(kept[turn * WIDTH + part] - largest);
                sum += kept[turn * WIDTH + part];
            }
        }
    }
    float scale = 1.0f / reduced(sum, false);
#pragma unroll
    for (int turn = 0; turn < TURNS; turn++) {
        int i = turn * THREADS + threadIdx.x;
        if (i < PIECES) {
            Piece piece;
#pragma unroll
            for (int part = 0; part < WIDTH; part++)
                ((float *)&piece)[part] = kept[turn * WIDTH + part] * scale;
#if STREAM && WIDTH == 4
            __stcs(to + i, piece);
#else
            to[i] = piece;
#endif
        }
    }
}
