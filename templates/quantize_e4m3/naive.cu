// Simple quantisation: one block per head. S, D, COLUMNS and Element are macros.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void quantize(const Element* x, unsigned char* codes, float* scale) {
    __shared__ float place[256];
    const long long head = (long long)blockIdx.x * S * D;
    float largest = 0;
    for (int i = threadIdx.x; i < S * D; i += blockDim.x) largest = fmaxf(largest, fabsf((float)x[head + i]));
    place[threadIdx.x] = largest;
    for (int step = 128; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) place[threadIdx.x] = fmaxf(place[threadIdx.x], place[threadIdx.x + step]);
    }
    __syncthreads();
    const float by = place[0] > 0 ? 448.f / place[0] : 0.f;
    if (threadIdx.x == 0) scale[blockIdx.x] = place[0] / 448.f;
    for (int i = threadIdx.x; i < S * D; i += blockDim.x) {
        const int to = COLUMNS ? i % D * S + i / D : i;
        codes[head + to] = __nv_cvt_float_to_fp8((float)x[head + i] * by, __NV_SATFINITE, __NV_E4M3);
    }
}
