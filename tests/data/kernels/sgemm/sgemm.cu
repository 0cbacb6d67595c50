extern "C" __global__ void __launch_bounds__(TILE *TILE / ROWS) sgemm(const float *a, const float *b, float *c) {
    constexpr int STEP = TILE / ROWS;
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const int x = threadIdx.x, column = blockIdx.x * TILE + x, top = blockIdx.y * TILE;
    float sums[ROWS] = {};
    for (int k = 0; k < K; k += TILE) {
        for (int y = threadIdx.y; y < TILE; y += STEP) {
            tile_a[y][x] = top + y < M && k + x < K ? a[(top + y) * K + k + x] : 0;
            tile_b[y][x] = k + y < K && column < N ? b[(k + y) * N + column] : 0;
        }
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            for (int row = 0; row < ROWS; row++) sums[row] += tile_a[threadIdx.y + row * STEP][i] * tile_b[i][x];
        __syncthreads();
    }
    for (int row = 0; row < ROWS; row++) {
        const int y = top + threadIdx.y + row * STEP;
        if (y < M && column < N) c[y * N + column] = sums[row];
    }
}
