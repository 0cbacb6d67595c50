#include <cuda/std/cstdint>

extern "C" __global__ void __launch_bounds__(THREADS) bias_gelu(const float *x, const float *bias, float *out) {
    const cuda::std::int64_t row = cuda::std::int64_t(blockIdx.x) * COLUMNS;
    for (cuda::std::int32_t i = threadIdx.x; i < COLUMNS; i += THREADS) {
        const float value = x[row + i] + bias[i];
        out[row + i] = 0.5f * value * (1.0f + erff(value * 0.70710678f));
    }
}
