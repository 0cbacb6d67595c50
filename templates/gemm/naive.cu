// A product as one writes it down first: a thread for each element of c, everything read from where it lies.
// The yardstick that is always there. M, N, K, BY_COLUMNS and EPILOGUE are macros; a, b, bias and c are halves.
#include <cuda_fp16.h>

#define EPILOGUE_none 0
#define EPILOGUE_bias 1
#define EPILOGUE_bias_relu 2
#define EPILOGUE_bias_gelu 3

extern "C" __global__ void product(const __half* a, const __half* b, const __half* bias, __half* c) {
    const long long row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    float x = 0;
    for (int k = 0; k < K; ++k)
        x += __half2float(a[row * K + k]) * __half2float(BY_COLUMNS ? b[(long long)k * N + column] : b[column * K + k]);
    if (EPILOGUE != EPILOGUE_none) x += __half2float(bias[column]);
    if (EPILOGUE == EPILOGUE_bias_relu) x = fmaxf(x, 0);
    if (EPILOGUE == EPILOGUE_bias_gelu) x = 0.5f * x * (1 + erff(x * 0.70710678f));
    c[row * N + column] = __float2half(x);
}
