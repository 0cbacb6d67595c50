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

struct Span {
    const unsigned char* bytes;
    unsigned long long size;
};

// Computes the checksum of each span: the sum of the hashes of each byte and its index. The order of the additions does
// not affect the result. Block b works on span b % count, so there must be at least `count` blocks.
extern "C" __global__ void checksums(const Span* spans, int count, unsigned long long* sums) {
    const Span span = spans[blockIdx.x % count];
    const unsigned long long blocks = (gridDim.x - 1 - blockIdx.x % count) / count + 1;
    unsigned long long mine = 0;
    for (unsigned long long i = (blockIdx.x / count) * (unsigned long long)blockDim.x + threadIdx.x; i < span.size;
         i += blocks * blockDim.x)
        mine += mix(i * 256 + span.bytes[i] + 1);
    for (int lanes = 16; lanes > 0; lanes /= 2) mine += __shfl_down_sync(~0u, mine, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(sums + blockIdx.x % count, mine);
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

// Number formats: the integer type that stores a number, and the number as a double, which is exact.
struct Float16 {
    using Bits = unsigned short;
    __device__ static double value(Bits bits) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
    }
};
struct Bfloat16 {  // the upper half of a float
    using Bits = unsigned short;
    __device__ static double value(Bits bits) { return __uint_as_float(unsigned(bits) << 16); }
};
struct Float8E5M2 {  // the upper half of a float16
    using Bits = unsigned char;
    __device__ static double value(Bits bits) { return Float16::value(bits << 8); }
};
struct Float8E4M3 {  // a float16 with a smaller exponent, except that NaN has the largest magnitude and infinity is missing
    using Bits = unsigned char;
    __device__ static double value(Bits bits) {
        const unsigned magnitude = bits & 0x7f;
        if (magnitude == 0x7f) return __uint_as_float(0x7fffffff);
        return Float16::value((bits & 0x80) << 8 | magnitude << 7) * 256;  // the exponent biases are 15 and 7
    }
};
struct Float32 {
    using Bits = unsigned;
    __device__ static double value(Bits bits) { return __uint_as_float(bits); }
};
struct Float64 {
    using Bits = unsigned long long;
    __device__ static double value(Bits bits) { return __longlong_as_double(bits); }
};

template <class FORMAT>
__device__ void measure(const typename FORMAT::Bits* values, const double* reference, unsigned long long count,
                        Distance* far) {
    using Bits = typename FORMAT::Bits;
    Distance mine{};
    double most = 0;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const Bits bits = values[i];
        const double difference = FORMAT::value(bits) - reference[i];
        if (difference - difference == 0) {
            mine.squares += difference * difference;
            most = fmax(most, fabs(difference));
        } else {
            ++mine.not_finite;
            mine.unwritten += bits == Bits(~Bits(0));
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

#define DISTANCE(NAME, FORMAT)                                                                                         \
    extern "C" __global__ void NAME(const FORMAT::Bits* values, const double* reference, unsigned long long count,     \
                                    Distance* far) {                                                                   \
        measure<FORMAT>(values, reference, count, far);                                                                \
    }
DISTANCE(distance_float16, Float16)
DISTANCE(distance_bfloat16, Bfloat16)
DISTANCE(distance_float8_e5m2, Float8E5M2)
DISTANCE(distance_float8_e4m3, Float8E4M3)
DISTANCE(distance_float32, Float32)
DISTANCE(distance_float64, Float64)
