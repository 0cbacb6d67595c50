extern "C" __global__ void kernel(const float *x, const float *residual, const float *weight, float *out0, float *out1)
{
    __shared__ float parts[THREADS];
    const long start = (long)blockIdx.x * HIDDEN;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < HIDDEN; i += THREADS) {
        float total = x[start + i] + residual[start + i];
        out1[start + i] = total;
        sum += total * total;
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    float scale = 1.0f / sqrtf(parts[0] / HIDDEN + 1e-6f);
    for (int i = threadIdx.x; i < HIDDEN; i += THREADS)
        out0[start + i] = out1[start + i] * scale * weight[i];
}
