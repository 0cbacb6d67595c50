#include <cuda_fp16.h>
extern "C" __global__ void transpose_forward(const __half *x, __half *out) {
    __shared__ __half tile[TILE][TILE + 2];
    const long c = blockIdx.x * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        const long row = (long)blockIdx.y * TILE + r;
        if (row < rows && c < cols) tile[r][threadIdx.x] = x[row * cols + c];
    }
    __syncthreads();
    const long oc = blockIdx.y * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += ROWS) {
        const long orow = (long)blockIdx.x * TILE + r;
        if (orow < cols && oc < rows) out[orow * rows + oc] = tile[threadIdx.x][r];
    }
}
