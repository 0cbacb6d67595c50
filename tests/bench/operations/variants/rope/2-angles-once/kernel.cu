#define QUADS ((HALF + 3) / 4)

extern "C" __global__ void __launch_bounds__(THREADS)
kernel(const float *q, const float *cosine, const float *sine, float *out)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= LENGTH * QUADS)
        return;
    const long place = i / QUADS;
    const int quad = i % QUADS;
#if HALF % 4 == 0
    const float4 c = ((const float4 *)cosine)[i], s = ((const float4 *)sine)[i];
#pragma unroll
    for (int each = 0; each < HEADS_EACH; each++) {
        const long head = (long)blockIdx.y * HEADS_EACH + each;
        if (head < BATCH * HEADS) {
            const float4 *from = (const float4 *)(q + (head * LENGTH + place) * 2 * HALF) + quad;
            float4 *to = (float4 *)(out + (head * LENGTH + place) * 2 * HALF) + quad;
            const float4 a = from[0], b = from[QUADS];
            const float4 one = make_float4(
                a.x * c.x - b.x * s.x, a.y * c.y - b.y * s.y, a.z * c.z - b.z * s.z, a.w * c.w - b.w * s.w);
            const float4 two = make_float4(
                b.x * c.x + a.x * s.x, b.y * c.y + a.y * s.y, b.z * c.z + a.z * s.z, b.w * c.w + a.w * s.w);
#if STREAM
            __stcs(to, one);
            __stcs(to + QUADS, two);
#else
            to[0] = one;
            to[QUADS] = two;
#endif
        }
    }
#else
    for (int each = 0; each < HEADS_EACH; each++) {
        const long head = (long)blockIdx.y * HEADS_EACH + each;
        if (head >= BATCH * HEADS)
            break;
        const long start = (head * LENGTH + place) * 2 * HALF;
        for (int k = 4 * quad; k < 4 * quad + 4 && k < HALF; k++) {
            const float a = q[start + k], b = q[start + HALF + k];
            const float c = cosine[place * HALF + k], s = sine[place * HALF + k];
            out[start + k] = a * c - b * s;
            out[start + HALF + k] = b * c + a * s;
        }
    }
#endif
}
