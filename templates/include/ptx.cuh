// Wrappers of the PTX instructions that the kernels use. They replace the CUDA headers, whose compilation would take
// longer than that of the kernel.

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;

__host__ __device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int largest(int a, int b) { return a > b ? a : b; }
__host__ __device__ constexpr int lesser(int a, int b) { return a < b ? a : b; }

__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// --- tensor cores -----------------------------------------------------------------------------------------------

// Four 8x8 matrices of 16-bit elements: lanes 8i..8i+7 give the row addresses of matrix i, which is loaded to r[i].
__device__ __forceinline__ void ldmatrix(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 { %0,%1,%2,%3 }, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void ldmatrix_transposed(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 { %0,%1,%2,%3 }, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}

__device__ __forceinline__ void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], { %1,%2,%3,%4 };"
                 :: "r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
#endif
}

// d = a * b + c for one 16x8 tile, depth 16, with FP16 inputs and FP32 sums. Lane 4g+t has the elements (g, 2t), (g,
// 2t+1), (g+8, 2t), (g+8, 2t+1) of c and d. Two adjacent tiles of d, packed to FP16, can be the operand a of another
// product.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 { %0,%1,%2,%3 }, { %4,%5,%6,%7 }, { %8,%9 }, { %10,%11,%12,%13 };"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Like mma(), with BF16 inputs.
__device__ __forceinline__ void mma_bfloats(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %0,%1,%2,%3 }, { %4,%5,%6,%7 }, { %8,%9 }, { %10,%11,%12,%13 };"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Like mma(), with E4M3 inputs (from sm_89 on) and depth 32: each register of a and b has four bytes instead of two
// halves. Lane 4g+t has the elements (g, 4t..4t+3), (g+8, 4t..4t+3), (g, 4t+16..4t+19), (g+8, 4t+16..4t+19) of a, and
// (4t..4t+3, g), (4t+16..4t+19, g) of b.
__device__ __forceinline__ void mma_e4m3(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 { %0,%1,%2,%3 }, { %4,%5,%6,%7 }, { %8,%9 }, { %10,%11,%12,%13 };"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// Transposes an 8x8 matrix of 16-bit elements, of which each lane has two adjacent elements of a row.
__device__ __forceinline__ u32 turn_matrix(u32 pair) {
    u32 turned;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}

// --- numbers ----------------------------------------------------------------------------------------------------

__device__ __forceinline__ u32 pack_halves(float low, float high) {
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ float2 unpack_halves(u32 pair) {
    float2 values;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(values.x), "=f"(values.y) : "r"(pair));
    return values;
}

__device__ __forceinline__ u32 pack_bfloats(float low, float high) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ float2 unpack_bfloats(u32 pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000));
}

// Converts four numbers to E4M3, the first one in the lowest byte; larger values become 448 (from sm_89 on).
__device__ __forceinline__ u32 pack_e4m3(float a, float b, float c, float d) {
    u32 packed;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high}; }" : "=r"(packed) : "f"(a), "f"(b), "f"(c), "f"(d));
    return packed;
}

// Converts the lower two, or the upper two, of four E4M3 numbers to FP16.
__device__ __forceinline__ u32 lower_halves(u32 bytes) {
    u32 pair;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, low; }" : "=r"(pair) : "r"(bytes));
    return pair;
}

__device__ __forceinline__ u32 upper_halves(u32 bytes) {
    u32 pair;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.rn.f16x2.e4m3x2 %0, high; }" : "=r"(pair) : "r"(bytes));
    return pair;
}

// Returns four of the eight bytes of high:low. The digits of SELECTOR choose them, beginning with the last digit.
template <u32 SELECTOR>
__device__ __forceinline__ u32 permute(u32 low, u32 high) {
    u32 chosen;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(chosen) : "r"(low), "r"(high), "n"(SELECTOR));
    return chosen;
}

__device__ __forceinline__ float widen(u16 half) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

__device__ __forceinline__ float widen(float x) { return x; }

// Returns the lower, or the upper, halves of two pairs as one pair.
__device__ __forceinline__ u32 lower_halves(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ u32 upper_halves(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

__device__ __forceinline__ float exp2_approximate(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Returns 1 / x with an error of at most one unit in the last place. Results below 2^-126 are not supported.
__device__ __forceinline__ float reciprocal_approximate(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Returns NaN if an argument is NaN. In this case, fmaxf() would return the other argument.
__device__ __forceinline__ float max_or_nan(float x, float y) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
    return larger;
}

// --- global memory ----------------------------------------------------------------------------------------------

// Cache policy of a load or store. streamed: evicted first. once: bypasses L1 and also loads adjacent data into L2, for
// data that no block writes during the launch.
enum class Loads { cached, streamed, once };
enum class Stores { cached, streamed };

__device__ __forceinline__ u16 load_once(const u16* from) {
    u16 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u16 %0, [%1];" : "=h"(x) : "l"(from));
    return x;
}

__device__ __forceinline__ u32 load_once(const u32* from) {
    u32 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(x) : "l"(from));
    return x;
}

__device__ __forceinline__ uint2 load_once(const uint2* from) {
    uint2 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 { %0,%1 }, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(from));
    return x;
}

__device__ __forceinline__ uint4 load_once(const uint4* from) {
    uint4 x;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 { %0,%1,%2,%3 }, [%4];"
                 : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(from));
    return x;
}

template <Loads HOW, class Pack>
__device__ __forceinline__ Pack load_global(const Pack* from) {
    if constexpr (HOW == Loads::streamed)
        return __ldcs(from);
    else if constexpr (HOW == Loads::once)
        return load_once(from);
    else
        return *from;
}

// Reads data that other blocks wrote during this launch. The load bypasses L1, which is not coherent with these writes.
__device__ __forceinline__ float4 load_shared_result(const float4* from) { return __ldcg(from); }

template <Stores HOW, class Pack>
__device__ __forceinline__ void store_global(Pack* to, Pack pack) {
    if constexpr (HOW == Stores::streamed)
        __stcs(to, pack);
    else
        *to = pack;
}

// Hides from the compiler how a value was computed. Instead of keeping a result in registers across a loop, the
// compiler then unpacks a pack, or reads through a pointer, again. It also does not unroll loops, because the number of
// iterations is unknown.
template <class T>
__device__ __forceinline__ const T* forgotten(const T* x) { asm volatile("" : "+l"(x)); return x; }
__device__ __forceinline__ u16 forgotten(u16 x) { asm volatile("" : "+h"(x)); return x; }
__device__ __forceinline__ u32 forgotten(u32 x) { asm volatile("" : "+r"(x)); return x; }
__device__ __forceinline__ int forgotten(int x) { asm volatile("" : "+r"(x)); return x; }
__device__ __forceinline__ uint2 forgotten(uint2 x) { asm volatile("" : "+r"(x.x), "+r"(x.y)); return x; }
__device__ __forceinline__ uint4 forgotten(uint4 x) {
    asm volatile("" : "+r"(x.x), "+r"(x.y), "+r"(x.z), "+r"(x.w));
    return x;
}

// --- asynchronous copies ----------------------------------------------------------------------------------------

// Copies BYTES from global to shared memory; writes zeros if the source is outside the problem.
template <int BYTES, int L2_PREFETCH>
__device__ __forceinline__ void copy_async(u32 shared, const void* global, bool inside) {
    const int size = inside ? BYTES : 0;
    if constexpr (BYTES == 2)  // smaller than any asynchronous copy: copied synchronously
        asm volatile("st.shared.u16 [%0], %1;" :: "r"(shared), "h"(inside ? *static_cast<const u16*>(global) : u16(0)) : "memory");
    else if constexpr (BYTES != 16)
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(shared), "l"(global), "n"(BYTES), "r"(size) : "memory");
    else if constexpr (L2_PREFETCH == 256)
        asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
                     :: "r"(shared), "l"(global), "r"(size) : "memory");
    else if constexpr (L2_PREFETCH == 128)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                     :: "r"(shared), "l"(global), "r"(size) : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared), "l"(global), "r"(size) : "memory");
}

// Commits a group of copies. Empty groups, which are complete immediately, let every step have the same number of
// groups.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's youngest groups are in flight.
template <int PENDING>
__device__ __forceinline__ void await_copies() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

// Waits for all copies of this thread, committed in groups or not.
__device__ __forceinline__ void await_all_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// --- barriers ---------------------------------------------------------------------------------------------------

// Synchronises the first THREADS threads of the block. Different groups of threads need barriers with different
// indices.
template <int THREADS, int PLACE = 1>
__device__ __forceinline__ void meet() {
    asm volatile("bar.sync %0, %1;" :: "n"(PLACE), "n"(THREADS) : "memory");
}

// Like meet(), for an index that is known only at run time.
template <int THREADS>
__device__ __forceinline__ void meet_at(int place) {
    asm volatile("bar.sync %0, %1;" :: "r"(place), "n"(THREADS) : "memory");
}

// Arrives at a barrier without waiting.
template <int THREADS>
__device__ __forceinline__ void arrive_at(int place) {
    asm volatile("bar.arrive %0, %1;" :: "r"(place), "n"(THREADS) : "memory");
}

__device__ __forceinline__ void barrier_init(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" :: "r"(barrier) : "memory");
}

// Arrives when all copies that this thread has issued are complete.
__device__ __forceinline__ void barrier_arrive_after_copies(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(barrier) : "memory");
}

// If MOST_TURNS is defined, a wait ends the kernel with an error after this number of attempts, so that a bug cannot
// block the machine.
__device__ __forceinline__ void barrier_await(u32 barrier, u32 parity) {
    u32 done;
#ifdef MOST_TURNS
    u32 turns = 0;
#endif
    do {
#ifdef MOST_TURNS
        if (++turns > MOST_TURNS) __trap();
#endif
#if __CUDA_ARCH__ >= 900
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
#else
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
#endif
    } while (!done);
}

// --- clusters of blocks (sm_90) ---------------------------------------------------------------------------------

// Synchronises all threads of a cluster of BLOCKS blocks; shared memory written by other threads becomes visible.
template <int BLOCKS>
__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ int rank_in_cluster() {
    u32 rank = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

// Arrives at the barrier at the same offset in another block of the cluster.
__device__ __forceinline__ void barrier_arrive_in_block(u32 barrier, int block) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(barrier), "r"(block) : "memory");
#endif
}

// Returns the same address in the shared memory of another block of the cluster.
template <class T>
__device__ __forceinline__ const T* in_block(const T* place, int block) {
    const T* found = place;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(found) : "l"(place), "r"(block));
#endif
    return found;
}

// --- overlap with the launches before and after (sm_90) ---------------------------------------------------------

__device__ __forceinline__ void await_previous_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void allow_next_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
