template <int COUNT>
__device__ int scan(int own, int *shared) {
    shared[threadIdx.x] = own;
    __syncthreads();
    for (int step = 1; step < COUNT; step *= 2) {
        const int before = threadIdx.x >= step ? shared[threadIdx.x - step] : 0;
        __syncthreads();
        shared[threadIdx.x] += before;
        __syncthreads();
    }
    return shared[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS) scan_blocks(const int *x, int *totals, int *out) {
    __shared__ int shared[THREADS];
    const int first = (blockIdx.x * THREADS + threadIdx.x) * ITEMS;
    int sum = 0;
    for (int i = first; i < first + ITEMS; i++) sum += i < N ? x[i] : 0;
    int running = scan<THREADS>(sum, shared) - sum;
    for (int i = first; i < first + ITEMS && i < N; i++) out[i] = running += x[i];
    if (threadIdx.x == THREADS - 1) totals[blockIdx.x] = shared[THREADS - 1];
}

constexpr int BLOCKS = (N + THREADS * ITEMS - 1) / (THREADS * ITEMS);

extern "C" __global__ void __launch_bounds__(1024) scan_totals(int *totals) {
    __shared__ int shared[1024];
    int before = 0;
    for (int first = 0; first < BLOCKS; first += 1024) {
        const int i = first + threadIdx.x;
        const int sum = scan<1024>(i < BLOCKS ? totals[i] : 0, shared);
        if (i < BLOCKS) totals[i] = before + sum;
        before += shared[1023];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) add_totals(const int *totals, int *out) {
    if (blockIdx.x == 0) return;
    const int first = blockIdx.x * THREADS * ITEMS, before = totals[blockIdx.x - 1];
    for (int item = threadIdx.x; item < THREADS * ITEMS; item += THREADS)
        if (first + item < N) out[first + item] += before;
}
