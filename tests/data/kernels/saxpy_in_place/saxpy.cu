extern "C" __global__ void __launch_bounds__(THREADS) saxpy(float a, const float *x, float *y) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < N) y[i] += a * x[i];
}
