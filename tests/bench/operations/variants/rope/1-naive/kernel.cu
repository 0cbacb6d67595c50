extern "C" __global__ void kernel(const float *q, const float *cosine, const float *sine, float *out)
{
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long)BATCH * HEADS * LENGTH * HALF)
        return;
    long row = i / HALF, angle = row % LENGTH * HALF + i % HALF, first = row * 2 * HALF + i % HALF;
    float a = q[first], b = q[first + HALF], c = cosine[angle], s = sine[angle];
    out[first] = a * c - b * s;
    out[first + HALF] = b * c + a * s;
}
