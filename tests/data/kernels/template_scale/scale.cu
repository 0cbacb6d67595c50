namespace own {
template <typename T, int COUNT>
__global__ void __launch_bounds__(THREADS) scale(const T *x, T *out) {
    const int first = blockIdx.x * THREADS * COUNT + threadIdx.x;
    for (int item = 0; item < COUNT; item++) {
        const int i = first + item * THREADS;
        if (i < N) out[i] = T(2) * x[i];
    }
}
}  // namespace own
