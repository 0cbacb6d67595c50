extern "C" __global__ void __launch_bounds__(TILE *TILE) multiply(const float *a, const float *b, float *parts) {
    __shared__ float tile_a[TILE][TILE + 1], tile_b[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    const int share = (K + SPLIT - 1) / SPLIT, first = blockIdx.z * share, end = min(K, first + share);
    float sum = 0;
    for (int k = first; k < end; k += TILE) {
        tile_a[y][x] = row < M && k + x < end ? a[row * K + k + x] : 0;
        tile_b[y][x] = column < N && k + y < end ? b[(k + y) * N + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += tile_a[y][i] * tile_b[i][x];
        __syncthreads();
    }
    if (row < M && column < N) parts[(blockIdx.z * M + row) * N + column] = sum;
}

extern "C" __global__ void __launch_bounds__(256) add(const float *parts, float *c) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= M * N) return;
    float sum = 0;
    for (int part = 0; part < SPLIT; part++) sum += parts[part * M * N + i];
    c[i] = sum;
}
