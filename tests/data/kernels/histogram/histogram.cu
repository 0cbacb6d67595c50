extern "C" __global__ void __launch_bounds__(THREADS) histogram(const unsigned char *bytes, int *counts) {
    __shared__ int own[256];
    for (int i = threadIdx.x; i < 256; i += THREADS) own[i] = 0;
    __syncthreads();
    const int first = blockIdx.x * THREADS * ITEMS + threadIdx.x;
    for (int item = 0; item < ITEMS; item++) {
        const int i = first + item * THREADS;
        if (i < N) atomicAdd(&own[bytes[i]], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += THREADS)
        if (own[i]) atomicAdd(&counts[i], own[i]);
}
