extern "C" __global__ void kernel(const float *x, const float *conv_weight, float *out)
{
    const int height = HEIGHT - 2, width = WIDTH - 2;
    long i = (long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (long)BATCH * CHANNELS * height * width)
        return;
    int column = i % width, row = i / width % height;
    long image = i / width / height;
    const float *from = x + (image * HEIGHT + row) * WIDTH + column;
    const float *weight = conv_weight + image % CHANNELS * 9;
    float sum = 0.0f;
    for (int y = 0; y < 3; y++)
        for (int across = 0; across < 3; across++)
            sum += from[y * WIDTH + across] * weight[3 * y + across];
    out[i] = sum;
}
