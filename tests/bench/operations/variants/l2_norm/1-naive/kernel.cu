extern "C" __global__ void kernel(const float *x, float *out)
{
    __shared__ float parts[THREADS];
    const float *row = x + (long)blockIdx.x * COLS;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < COLS; i += THREADS)
        sum += row[i] * row[i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    float norm = sqrtf(parts[0]);
    for (int i = threadIdx.x; i < COLS; i += THREADS)
        out[(long)blockIdx.x * COLS + i] = row[i] / norm;
}
