extern "C" __global__ void kernel(const float *predictions, const float *targets, float *out)
{
    __shared__ float parts[THREADS];
    float sum = 0.0f;
    for (long i = threadIdx.x; i < (long)ROWS * COLS; i += THREADS) {
        float d = predictions[i] - targets[i];
        sum += d * d;
    }
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[0] = parts[0] / ((float)ROWS * COLS);
}
