#include <cuda_fp8.h>

extern "C" __global__ void __launch_bounds__(THREADS)
dequantize(const __nv_fp8_e4m3 *codes, const float *scales, float *out) {
    const float scale = scales[blockIdx.y];
    for (int item = 0; item < ITEMS; item++) {
        const int i = (blockIdx.x * ITEMS + item) * THREADS + threadIdx.x;
        if (i < COLUMNS) out[blockIdx.y * COLUMNS + i] = scale * float(codes[blockIdx.y * COLUMNS + i]);
    }
}
