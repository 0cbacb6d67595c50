// A simple product: one thread per element of c, all operands are read from global memory. This baseline needs no
// library. M, N, K, BY_ROW, BFLOATS and EPILOGUE are macros.
#include <cuda_fp8.h>
#if BFLOATS
#include <cuda_bf16.h>
typedef __nv_bfloat16 Number;
#else
#include <cuda_fp16.h>
typedef __half Number;
#endif

#define EPILOGUE_none 0
#define EPILOGUE_bias 1
#define EPILOGUE_bias_relu 2
#define EPILOGUE_bias_gelu 3

extern "C" __global__ void product(const __nv_fp8_e4m3* a, const __nv_fp8_e4m3* b, const float* a_scale,
                                   const float* b_scale, const Number* bias, Number* c) {
    const long long row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    float x = 0;
    for (long long k = 0; k < K; ++k) x += float(a[row * K + k]) * float(b[column * K + k]);
    x *= a_scale[BY_ROW ? row : 0] * b_scale[BY_ROW ? column : 0];
    if (EPILOGUE != EPILOGUE_none) x += float(bias[column]);
    if (EPILOGUE == EPILOGUE_bias_relu) x = fmaxf(x, 0);
    if (EPILOGUE == EPILOGUE_bias_gelu) x = 0.5f * x * (1 + erff(x * 0.70710678f));
    c[row * N + column] = Number(x);
}
