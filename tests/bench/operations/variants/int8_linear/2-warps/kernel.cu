#define WIDTH (INNER % 16 == 0 ? 16 : 1)

__device__ __forceinline__ void read(const signed char *from, signed char *to)
{
#if INNER % 16 == 0
    *(int4 *)to = __ldcs((const int4 *)from);
#else
    to[0] = from[0];
#endif
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
kernel(const float *x, const signed char *weight, const float *scale, float *out)
{
    const int first = (blockIdx.x * WARPS + threadIdx.y) * COLUMNS;
    float sums[COLUMNS][TOKENS] = {};
    for (int k = threadIdx.x * WIDTH; k < INNER; k += 32 * WIDTH) {
        alignas(16) signed char kept[COLUMNS][16];
#pragma unroll
        for (int column = 0; column < COLUMNS; column++)
            read(weight + (long)min(first + column, OUTER - 1) * INNER + k, kept[column]);
#pragma unroll
        for (int token = 0; token < TOKENS; token++) {
#if INNER % 16 == 0
#pragma unroll
            for (int quad = 0; quad < 4; quad++) {
                const float4 v = *(const float4 *)(x + (long)token * INNER + k + 4 * quad);
#pragma unroll
                for (int column = 0; column < COLUMNS; column++) {
                    const signed char *w = kept[column] + 4 * quad;
                    sums[column][token] += v.x * w[0] + v.y * w[1] + v.z * w[2] + v.w * w[3];
                }
            }
#else
            const float v = x[(long)token * INNER + k];
#pragma unroll
            for (int column = 0; column < COLUMNS; column++)
                sums[column][token] += v * kept[column][0];
#endif
        }
    }
#pragma unroll
    for (int column = 0; column < COLUMNS; column++)
#pragma unroll
        for (int token = 0; token < TOKENS; token++) {
            float sum = sums[column][token];
            for (int step = 16; step > 0; step /= 2)
                sum += __shfl_xor_sync(0xffffffffu, sum, step);
            if (threadIdx.x == 0 && first + column < OUTER)
                out[(long)token * OUTER + first + column] = sum * scale[first + column];
        }
}
