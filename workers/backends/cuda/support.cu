// Kernels of kernel-evo for CUDA devices: kernels that are timed for comparison, and checks of buffers.

extern "C" __global__ void empty() {}

// The anchor: a fixed amount of dependent arithmetic on every multiprocessor.
extern "C" __global__ void anchor(float* out) {
    float x = threadIdx.x, y = blockIdx.x;
    for (int i = 0; i < 1024; ++i) {
        x = fmaf(x, 0.999f, y);
        y = fmaf(y, 0.998f, x);
    }
    if (x == -1.f) *out = y;
}

__device__ unsigned long long mix(unsigned long long x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

// Adds a hash of each byte and its index to *sum. The order of the additions does not affect the result.
extern "C" __global__ void checksum(const unsigned char* bytes, unsigned long long count, unsigned long long* sum) {
    unsigned long long mine = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        mine += mix(i * 256 + bytes[i] + 1);
    atomicAdd(sum, mine);
}

// Fills the shared memory of a block with NaN, so that a kernel that reads it before writing gives wrong results.
extern "C" __global__ void poison_shared(int words) {
    extern __shared__ volatile unsigned shared[];
    for (int i = threadIdx.x; i < words; i += blockDim.x) shared[i] = 0xffffffffu;
}

// Each thread copies four 16-byte words.
extern "C" __global__ void copy(const uint4* __restrict__ from, uint4* __restrict__ to, long long count) {
    const long long first = (long long)blockIdx.x * blockDim.x * 4 + threadIdx.x;
    uint4 words[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (first + i * blockDim.x < count) words[i] = __ldcs(from + first + i * blockDim.x);
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (first + i * blockDim.x < count) __stcs(to + first + i * blockDim.x, words[i]);
}

// Distance of an output from its reference, as in `workers.backends.distance`.
struct Distance {
    unsigned long long unwritten, not_finite, max_bits;  // max_bits: largest difference; positive doubles have the order of their bits
    double squares;
};

__device__ double widened(unsigned short bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}
__device__ double widened(unsigned bits) { return __uint_as_float(bits); }
__device__ double widened(unsigned long long bits) { return __longlong_as_double(bits); }

template <class BITS>
__device__ void measure(const BITS* values, const double* reference, unsigned long long count, Distance* far) {
    Distance mine{};
    double most = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const BITS bits = values[i];
        const double difference = widened(bits) - reference[i];
        if (difference - difference == 0) {
            mine.squares += difference * difference;
            most = fmax(most, fabs(difference));
        } else {
            ++mine.not_finite;
            mine.unwritten += bits == BITS(~BITS(0));
        }
    }
    mine.max_bits = __double_as_longlong(most);
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        mine.unwritten += __shfl_down_sync(~0u, mine.unwritten, lanes);
        mine.not_finite += __shfl_down_sync(~0u, mine.not_finite, lanes);
        mine.squares += __shfl_down_sync(~0u, mine.squares, lanes);
        mine.max_bits = max(mine.max_bits, __shfl_down_sync(~0u, mine.max_bits, lanes));
    }
    if (threadIdx.x % 32 != 0) return;
    atomicAdd(&far->unwritten, mine.unwritten);
    atomicAdd(&far->not_finite, mine.not_finite);
    atomicMax(&far->max_bits, mine.max_bits);
    atomicAdd(&far->squares, mine.squares);
}

#define DISTANCE(NAME, BITS)                                                                                     \
    extern "C" __global__ void NAME(const BITS* values, const double* reference, unsigned long long count,       \
                                    Distance* far) {                                                             \
        measure(values, reference, count, far);                                                                  \
    }
DISTANCE(distance_float16, unsigned short)
DISTANCE(distance_float32, unsigned)
DISTANCE(distance_float64, unsigned long long)
