extern "C" __global__ void kernel(const float *x, const signed char *weight, const float *scale, float *out)
{
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= TOKENS * OUTER)
        return;
    const float *row = x + (long)(i / OUTER) * INNER;
    const signed char *column = weight + (long)(i % OUTER) * INNER;
    float sum = 0.0f;
    for (int k = 0; k < INNER; k++)
        sum += row[k] * column[k];
    out[i] = sum * scale[i % OUTER];
}
