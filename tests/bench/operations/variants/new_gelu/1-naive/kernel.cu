extern "C" __global__ void kernel(const float *x, float *out)
{
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i < (long)ROWS * COLS) {
        float v = x[i];
        out[i] = 0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    }
}
