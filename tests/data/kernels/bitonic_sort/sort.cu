extern "C" __global__ void __launch_bounds__(THREADS) sort(const int *keys, int *order) {
    constexpr int COUNT = 1 << LOG;
    __shared__ int key[COUNT], index[COUNT];
    for (int i = threadIdx.x; i < COUNT; i += THREADS) key[i] = keys[i], index[i] = i;
    __syncthreads();
    for (int size = 2; size <= COUNT; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            for (int i = threadIdx.x; i < COUNT; i += THREADS) {
                const int j = i ^ step;
                if (j > i && (key[i] > key[j]) == !(i & size) && key[i] != key[j]) {
                    const int k = key[i], v = index[i];
                    key[i] = key[j], index[i] = index[j];
                    key[j] = k, index[j] = v;
                }
            }
            __syncthreads();
        }
    for (int i = threadIdx.x; i < COUNT; i += THREADS) order[i] = index[i];
}
