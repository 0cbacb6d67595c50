/* What the CPU device measures itself by: an anchor kernel, an empty call, and its two ceilings. */
#include <string.h>

#if defined(__AVX512F__)
enum { SIMD = 64, CHAINS = 24 };
#elif defined(__AVX__)
enum { SIMD = 32, CHAINS = 12 };
#elif defined(__aarch64__)
enum { SIMD = 16, CHAINS = 24 };
#else
enum { SIMD = 16, CHAINS = 12 };
#endif

/* CHAINS independent multiply-adds hide the latency of each; the sum keeps the compiler from dropping them. */
#define PEAK(name, type)                                                                                               \
    type name(long rounds, type factor, type addend) {                                                                 \
        typedef type vector __attribute__((vector_size(SIMD)));                                                        \
        vector chain[CHAINS];                                                                                          \
        for (int i = 0; i < CHAINS; i++) chain[i] = (vector){0} + (type)i;                                             \
        for (long round = 0; round < rounds; round++) {                                                                \
            _Pragma("GCC unroll 24") for (int i = 0; i < CHAINS; i++) chain[i] = chain[i] * factor + addend;           \
        }                                                                                                              \
        vector sum = chain[0];                                                                                         \
        for (int i = 1; i < CHAINS; i++) sum += chain[i];                                                              \
        return sum[0];                                                                                                 \
    }                                                                                                                  \
    long name##_flops(void) { return 2L * CHAINS * (SIMD / (long)sizeof(type)); }

PEAK(peak_float32, float)
PEAK(peak_float64, double)

void copy(char *to, const char *from, long bytes) { memcpy(to, from, (size_t)bytes); }

void empty(void) {}

/* A dependent chain: its time follows the clock alone, not the caches, the memory or the vector units. */
float anchor(void) {
    volatile float start = 1.0f;
    float value = start;
    for (int i = 0; i < 20000; i++) value = value * 0.999f + 0.001f;
    return value;
}
