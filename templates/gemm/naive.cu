// A simple product: one thread per element of c, all operands are read from global memory. This baseline needs no
// library. M, N, K, A_ROW, B_ROW, BY_COLUMNS, BFLOATS and EPILOGUE are macros.
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
#define EPILOGUE_bias_gelu_tanh 4
#define EPILOGUE_bias_silu 5

extern "C" __global__ void product(const Number* a, const Number* b, const Number* bias, const Number* residual, Number* c) {
    const long long row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    const long long entry = blockIdx.z;  // index of the product, if there are several
    a += entry * M * A_ROW;
    b += entry * (BY_COLUMNS ? K : N) * B_ROW;
    c += entry * M * N;
    if (residual) residual += entry * M * N;
    float x = 0;
    for (long long k = 0; k < K; ++k)
        x += float(a[row * A_ROW + k]) * float(BY_COLUMNS ? b[k * B_ROW + column] : b[column * B_ROW + k]);
    if (EPILOGUE != EPILOGUE_none) x += float(bias[column]);
    if (EPILOGUE == EPILOGUE_bias_relu) x = fmaxf(x, 0);
    if (EPILOGUE == EPILOGUE_bias_gelu) x = 0.5f * x * (1 + erff(x * 0.70710678f));
    if (EPILOGUE == EPILOGUE_bias_gelu_tanh) x = 0.5f * x * (1 + tanhf(0.7978846f * (x + 0.044715f * x * x * x)));
    if (EPILOGUE == EPILOGUE_bias_silu) x = x / (1 + expf(-x));
    if (residual) x += float(residual[row * N + column]);
    c[row * N + column] = Number(x);
}
