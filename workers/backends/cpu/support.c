/* Functions with which the CPU device measures itself: the anchor, an empty function, peak rates and copies. */
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

/* CHAINS independent multiply-adds hide the latency. The compiler cannot remove them, because their sum is returned. */
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

/* Exponentials and divisions are measured like multiply-adds, with fewer vectors, because each needs more registers. */
enum { SPECIAL_CHAINS = CHAINS / 4 };
typedef float floats __attribute__((vector_size(SIMD)));
typedef int ints __attribute__((vector_size(SIMD)));

/* Return 2^x for x >= 0. The fraction is computed by a polynomial of degree 5, the lowest degree with an error of a few
 * float32 units. */
static inline floats exponential(floats x) {
    ints whole = __builtin_convertvector(x, ints);
    floats f = x - __builtin_convertvector(whole, floats);
    floats p = ((((f * 0.0018775767f + 0.0089893397f) * f + 0.0558263180f) * f + 0.2401536050f) * f + 0.6931530732f) * f
               + 0.9999999404f;
    return (floats)((ints)p + (whole << 23));
}

#define SPECIAL(name, step)                                                                                            \
    float name(long rounds, float factor, float addend) {                                                              \
        floats chain[SPECIAL_CHAINS];                                                                                  \
        for (int i = 0; i < SPECIAL_CHAINS; i++) chain[i] = (floats){0} + addend + 0.01f * (float)i;                   \
        for (long round = 0; round < rounds; round++) {                                                                \
            _Pragma("GCC unroll 6") for (int i = 0; i < SPECIAL_CHAINS; i++) chain[i] = step;                          \
        }                                                                                                              \
        floats sum = chain[0];                                                                                         \
        for (int i = 1; i < SPECIAL_CHAINS; i++) sum += chain[i];                                                      \
        return sum[0];                                                                                                 \
    }

SPECIAL(exponentials, exponential(chain[i] * factor))
SPECIAL(divisions, addend / chain[i])
long special_results(void) { return SPECIAL_CHAINS * (SIMD / (long)sizeof(float)); }

void copy(char *to, const char *from, long bytes, long times) {
    for (long i = 0; i < times; i++) {
        memcpy(to, from, (size_t)bytes);
        __asm__ volatile("" : : "r"(to), "r"(from) : "memory");
    }
}

/* Remove a buffer from all caches, writing changed lines back to memory. Return 0 if the processor has no instruction for
 * this. Unlike clflush, clflushopt does not wait for the previous line: 4 MiB take 0.25 ms instead of 7 ms (Intel Xeon,
 * virtual machine). The fence waits for all lines. */
int flush(const char *buffer, long bytes) {
#if defined(__x86_64__)
#if defined(__CLFLUSHOPT__)
    for (long at = 0; at < bytes; at += 64) __builtin_ia32_clflushopt(buffer + at);
#else
    for (long at = 0; at < bytes; at += 64) __builtin_ia32_clflush(buffer + at);
#endif
    __builtin_ia32_mfence();
    return 1;
#else
    return (void)buffer, (void)bytes, 0;
#endif
}

void empty(void) {}

/* The anchor: a dependent chain, whose time depends only on the clock rate, not on caches, memory or vector units. */
float anchor(void) {
    volatile float start = 1.0f;
    float value = start;
    for (int i = 0; i < 20000; i++) value = value * 0.999f + 0.001f;
    return value;
}
