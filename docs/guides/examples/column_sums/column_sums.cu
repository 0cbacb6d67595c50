// Sums of the columns of a matrix: each block adds its rows in shared memory, and then adds its sums to the output.
#include <cuda/std/cstdint>

#ifndef ROWS
#define ROWS 4096
#endif
#ifndef COLUMNS
#define COLUMNS 1024
#endif
#ifndef THREADS_X
#define THREADS_X 32
#endif
#ifndef THREADS_Y
#define THREADS_Y 8
#endif
#ifndef ROWS_OF_BLOCK
#define ROWS_OF_BLOCK 256
#endif

extern "C" __global__ void __launch_bounds__(THREADS_X *THREADS_Y) column_sums(const float *matrix, float *sums) {
    __shared__ float partial[THREADS_Y][THREADS_X];
    const int32_t column = blockIdx.x * THREADS_X + threadIdx.x, first = blockIdx.y * ROWS_OF_BLOCK;
    float sum = 0;
    if (column < COLUMNS)
        for (int32_t row = first + threadIdx.y; row < min(first + ROWS_OF_BLOCK, ROWS); row += THREADS_Y)
            sum += matrix[int64_t(row) * COLUMNS + column];
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < COLUMNS) {
        for (int32_t i = 1; i < THREADS_Y; i++) sum += partial[i][threadIdx.x];
        atomicAdd(&sums[column], sum);
    }
}
