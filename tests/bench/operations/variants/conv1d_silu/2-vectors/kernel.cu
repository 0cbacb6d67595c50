__device__ __forceinline__ float silu(float v) { return v / (1.0f + __expf(-v)); }

extern "C" __global__ void __launch_bounds__(THREADS)
kernel(const float *x, const float *conv_weight, const float *conv_bias, float *out)
{
    const long row = ((long)blockIdx.z * CHANNELS + blockIdx.y) * LENGTH;
    const float4 w = ((const float4 *)conv_weight)[blockIdx.y];
    const float bias = conv_bias[blockIdx.y];
#pragma unroll
    for (int item = 0; item < ITEMS; item++) {
        const int time = ((blockIdx.x * ITEMS + item) * THREADS + threadIdx.x) * 4;
        if (time >= LENGTH)
            continue;
        const float *from = x + row + time;
#if LENGTH % 4 == 0
        const float4 v = *(const float4 *)from;
        float4 before = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (time > 0)
            before = *(const float4 *)(from - 4);
        const float4 made = make_float4(
            silu(bias + before.y * w.x + before.z * w.y + before.w * w.z + v.x * w.w),
            silu(bias + before.z * w.x + before.w * w.y + v.x * w.z + v.y * w.w),
            silu(bias + before.w * w.x + v.x * w.y + v.y * w.z + v.z * w.w),
            silu(bias + v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w));
#if STREAM
        __stcs((float4 *)(out + row + time), made);
#else
        *(float4 *)(out + row + time) = made;
#endif
#else
        for (int each = 0; each < 4 && time + each < LENGTH; each++) {
            float sum = bias;
            for (int tap = 0; tap < 4; tap++)
                if (time + each + tap - 3 >= 0)
                    sum += from[each + tap - 3] * ((const float *)&w)[tap];
            out[row + time + each] = silu(sum);
        }
#endif
    }
}
