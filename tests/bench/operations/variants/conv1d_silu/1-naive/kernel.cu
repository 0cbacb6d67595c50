extern "C" __global__ void kernel(const float *x, const float *conv_weight, const float *conv_bias, float *out)
{
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long)BATCH * CHANNELS * LENGTH)
        return;
    int time = i % LENGTH, channel = i / LENGTH % CHANNELS;
    float sum = conv_bias[channel];
    for (int tap = 0; tap < 4; tap++)
        if (time + tap - 3 >= 0)
            sum += x[i + tap - 3] * conv_weight[4 * channel + tap];
    out[i] = sum / (1.0f + expf(-sum));
}
