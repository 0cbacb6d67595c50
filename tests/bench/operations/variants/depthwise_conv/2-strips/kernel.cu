extern "C" __global__ void __launch_bounds__(THREADS * LANES) kernel(const float *x, const float *conv_weight, float *out)
{
    const int height = HEIGHT - 2, width = WIDTH - 2;
    const int column = blockIdx.x * THREADS + threadIdx.x;
    const int first = (blockIdx.y * LANES + threadIdx.y) * STRIP;
    const long image = blockIdx.z;
    if (column >= width || first >= height)
        return;
    float weight[9];
#pragma unroll
    for (int i = 0; i < 9; i++)
        weight[i] = conv_weight[image % CHANNELS * 9 + i];
    const float *from = x + (image * HEIGHT + first) * WIDTH + column;
    float *to = out + (image * height + first) * width + column;
    float a0 = from[0], a1 = from[1], a2 = from[2];
    float b0 = from[WIDTH], b1 = from[WIDTH + 1], b2 = from[WIDTH + 2];
#pragma unroll
    for (int row = 0; row < STRIP; row++) {
        if (first + row < height) {
            const float *next = from + (row + 2) * WIDTH;
            float c0 = next[0], c1 = next[1], c2 = next[2];
            to[row * width] = a0 * weight[0] + a1 * weight[1] + a2 * weight[2] + b0 * weight[3] + b1 * weight[4]
                            + b2 * weight[5] + c0 * weight[6] + c1 * weight[7] + c2 * weight[8];
            a0 = b0, a1 = b1, a2 = b2, b0 = c0, b1 = c1, b2 = c2;
        }
    }
}
