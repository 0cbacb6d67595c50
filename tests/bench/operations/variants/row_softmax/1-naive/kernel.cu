extern "C" __global__ void kernel(const float *x, float *out)
{
    __shared__ float parts[THREADS];
    const float *row = x + (long)blockIdx.x * COLS;
    float largest = -3.4e38f;
    for (int i = threadIdx.x; i < COLS; i += THREADS)
        largest = fmaxf(largest, row[i]);
    parts[threadIdx.x] = largest;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            parts[threadIdx.x] = fmaxf(parts[threadIdx.x], parts[threadIdx.x + step]);
        __syncthreads();
    }
    largest = parts[0];
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < COLS; i += THREADS)
        sum += expf(row[i] - largest);
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    for (int i = threadIdx.x; i < COLS; i += THREADS)
        out[(long)blockIdx.x * COLS + i] = expf(row[i] - largest) / parts[0];
}
