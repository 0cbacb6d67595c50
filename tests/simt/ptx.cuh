// Replaces templates/include/ptx.cuh by functions of the same names that run on the host. Each CUDA thread is a fiber
// that runs until it must wait for other threads, and a warp runs as far ahead of other warps as barriers allow. This
// reveals missing barriers: in one of the orders, a thread reads data that is not yet written or already overwritten.
// The layout of matrix fragments follows the PTX ISA, "Matrix Fragments for mma.m16n8k16" and "ldmatrix". Asynchronous
// copies happen either as early or as late as possible. Shared memory is initialised with NaN.
#undef _FORTIFY_SOURCE  // its check of longjmp refuses a jump to another stack
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include "order.cuh"

#define __device__
#define __host__
#define __global__
#define __shared__
#define __align__(bytes)
#define __launch_bounds__(...)
#define __maxnreg__(count)
#define __cluster_dims__(...)
#define __grid_constant__
#define __forceinline__ inline

typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned char u8;
struct alignas(8) uint2 { u32 x, y; };
struct alignas(16) uint4 { u32 x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Index { u32 x = 0, y = 0, z = 0; };
using std::max;
using std::min;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int largest(int a, int b) { return a > b ? a : b; }
constexpr int lesser(int a, int b) { return a < b ? a : b; }
inline float2 make_float2(float x, float y) { return float2{x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
inline uint2 make_uint2(u32 x, u32 y) { return uint2{x, y}; }

alignas(1024) unsigned char memory[256 << 10];
extern "C" __attribute__((weak, visibility("hidden"))) char __start_simt_shared[], __stop_simt_shared[];  // see cuda.cuh
Index threadIdx, blockIdx, blockDim, gridDim;

// --- fibers -----------------------------------------------------------------------------------------------------

namespace simt {

struct Copy { void* to; const void* from; int bytes; bool inside; };

struct Fiber {
    ucontext_t start;
    jmp_buf place;  // where the fiber pauses; unlike swapcontext, a long jump makes no system call
    std::unique_ptr<char[]> stack{new char[STACK_BYTES]};
    bool started, done;
    const u32* awaited;  // the fiber continues once this number has changed
    u32 was;
    std::vector<Copy> open_group;
    std::deque<std::vector<Copy>> groups;
    std::deque<u32> copied;  // number of copies up to the end of each group
    static constexpr int STACK_BYTES = 256 << 10;
};

struct Meeting { u32 past = 0; int present = 0; void* given[32]; Clock arrived, met; };

struct Barrier { u32 past = 0, expected = 0, pending = 0, waiting = 0; long long bytes = 0; Clock arrived, met; };

std::vector<Fiber> fibers;
jmp_buf scheduler;
int current, shared_bytes;
bool eager;
u32 schedule;  // 0: threads, warps and blocks run in ascending order; 1: in descending order; otherwise the seed of `shuffling`
std::mt19937 shuffling;
u32 patience;  // counts how often only threads that had yielded could continue
char fault_text[200];
Meeting warps[32], places[16];
std::map<u32, Barrier> barriers;
std::map<u32, std::deque<std::function<void()>>> deliveries;  // delayed until a thread waits for the barrier
std::vector<bool> read_by_threads;  // chunks of 16 bytes whose reads a later write of the TMA unit may still overtake

inline void fault(const char* what, u32 where) {
    if (!fault_text[0]) std::snprintf(fault_text, sizeof fault_text, "thread %d: %s (%u)", current, what, where);
}

inline void leave(Fiber& fiber) {
    if (!_setjmp(fiber.place)) _longjmp(scheduler, 1);
}

inline void pause(const u32& number, u32 was) {
    Fiber& fiber = fibers[current];
    fiber.awaited = &number;
    fiber.was = was;
    leave(fiber);
}

// Collects a value from each thread; the last thread to arrive calls `act` with all values.
template <class Act>
void gather(Meeting& meeting, int size, int place, void* mine, Act act) {
    if (place < 32) meeting.given[place] = mine;
    if (++meeting.present < size) return pause(meeting.past, meeting.past);
    const OnBehalf of_all;
    act(meeting.given);
    meeting.present = 0;
    ++meeting.past;
}

inline int lane() { return current % 32; }

template <class Mine, class Act>
void warp(Mine& mine, Act act) {
    gather(warps[current / 32], 32, lane(), &mine, [&](void** given) {
        Mine* all[32];
        for (int i = 0; i < 32; ++i) all[i] = static_cast<Mine*>(given[i]);
        act(all);
    });
}

// Like gather(). The accesses of all threads before the meeting precede their accesses after it.
inline void meet_in_order(Meeting& meeting, int size, int place = 32) {
    order_of_accesses.release(current, meeting.arrived);
    gather(meeting, size, place, nullptr, [&](void**) { meeting.met = meeting.arrived; });
    order_of_accesses.acquire(current, meeting.met);
}

inline void carry_out(const std::vector<Copy>& copies) {
    const OnBehalf of_copies;
    for (const Copy& copy : copies)
        copy.inside ? std::memcpy(copy.to, copy.from, copy.bytes) : std::memset(copy.to, 0, copy.bytes);
}

inline void* at(u32 address, u32 bytes, u32 alignment) {
    if (address % alignment) fault("misaligned shared memory address", address);
    if (address + bytes > u32(shared_bytes)) fault("shared memory address out of bounds", address);
    return memory + address % (sizeof memory - 4096);
}

inline float widened(u16 bits) {
    _Float16 half;
    std::memcpy(&half, &bits, 2);
    return float(half);
}

inline u16 narrowed(float x) {
    const _Float16 half = _Float16(x);
    u16 bits;
    std::memcpy(&bits, &half, 2);
    return bits;
}

inline float half_of(u32 pair, int i) { return widened(u16(pair >> 16 * i)); }

inline float of_e4m3(u32 code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    const float size = exponent ? std::ldexp(8.f + fraction, exponent - 10) : std::ldexp(float(fraction), -9);
    return (code & 0x7f) == 0x7f ? NAN : code & 0x80 ? -size : size;
}

// Rounds to nearest, ties to even.
inline u32 to_e4m3(float x) {
    if (std::isnan(x)) return 0x7f;
    int exponent;
    const float size = std::min(std::fabs(x), 448.f);
    std::frexp(size, &exponent);
    exponent = size > 0 ? max(exponent, -5) : -5;
    const u32 code = u32(std::nearbyint(std::ldexp(size, 4 - exponent))) + 8 * (exponent + 5);
    return code | (std::signbit(x) ? 0x80 : 0);
}

inline float e4m3_of(u32 bytes, int i) {
    static const std::vector<float> numbers = [] {
        std::vector<float> all;
        for (u32 code = 0; code < 256; ++code) all.push_back(of_e4m3(code));
        return all;
    }();
    return numbers[bytes >> 8 * i & 0xff];
}

void (*body)();

inline void begin() {
    body();
    fibers[current].done = true;
    leave(fibers[current]);
}

inline void resume(int index) {
    current = index;
    threadIdx = Index{u32(index) % blockDim.x, u32(index) / blockDim.x % blockDim.y, u32(index) / (blockDim.x * blockDim.y)};
    Fiber& fiber = fibers[index];
    fiber.awaited = nullptr;
    if (_setjmp(scheduler)) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    setcontext(&fiber.start);
}

// Returns the order in which `count` threads, warps or blocks run.
inline std::vector<int> sequence(int count) {
    std::vector<int> all(count);
    std::iota(all.begin(), all.end(), 0);
    if (schedule == 1) std::reverse(all.begin(), all.end());
    if (schedule > 1) std::shuffle(all.begin(), all.end(), shuffling);
    return all;
}

// Runs each ready thread of a warp until it must wait. Returns false if no thread was ready.
inline bool advance(int warp) {
    const int first = warp * 32, count = min(32, int(fibers.size()) - first);
    bool moved = false;
    for (const int lane : sequence(count)) {
        const int index = first + lane;
        const Fiber& fiber = fibers[index];
        if (fiber.done || (fiber.awaited && *fiber.awaited == fiber.was)) continue;
        resume(index);
        moved = true;
    }
    return moved;
}

// A block of a cluster, suspended while other blocks run.
struct Parked {
    std::vector<Fiber> fibers;
    std::vector<unsigned char> memory;
    Order order_of_accesses;
    Meeting warps[32], places[16];
    decltype(simt::barriers) barriers;
    decltype(simt::deliveries) deliveries;
    u32 block;
};

std::vector<Parked> parked;                              // blocks of one cluster, by rank
std::vector<std::vector<unsigned char>> cluster_memory;  // memory of each block at the last synchronisation
u32 cluster_meetings, cluster_size, rank;

// Offset at which `order_of_accesses` continues with arrays that the source declares (cuda.cuh).
inline u32 declared_from() { return (shared_bytes + 15) / 16 * 16; }

inline void start_block() {
    std::memset(memory, 0xff, sizeof memory);
    if (__stop_simt_shared) std::memset(__start_simt_shared, 0xff, __stop_simt_shared - __start_simt_shared);
    barriers.clear();
    read_by_threads.clear();
    deliveries.clear();
    order_of_accesses.begin(fibers.size(), declared_from() + (__stop_simt_shared - __start_simt_shared));
    for (Meeting* const all : {warps, places})
        for (int i = 0; i < (all == warps ? 32 : 16); ++i) all[i].arrived.clear(), all[i].met.clear();
    for (Fiber& fiber : fibers) {
        getcontext(&fiber.start);
        fiber.start.uc_stack.ss_sp = fiber.stack.get();
        fiber.start.uc_stack.ss_size = Fiber::STACK_BYTES;
        fiber.start.uc_link = nullptr;
        makecontext(&fiber.start, begin, 0);
        fiber.started = fiber.done = false;
        fiber.awaited = nullptr;
    }
}

inline void end_block() {
    for (const auto& [barrier, queue] : deliveries)
        if (!queue.empty()) fault("ends before its boxes have arrived", barrier);
    for (const auto& [barrier, state] : barriers)
        if (state.bytes)
            fault(state.bytes > 0 ? "a barrier expects bytes that never arrive" : "more bytes arrive than their barrier expects", barrier);
    for (Fiber& fiber : fibers) {
        if (!fiber.done) fault("waits forever", blockIdx.x);
        for (const std::vector<Copy>& group : fiber.groups)
            if (!group.empty() && !eager) fault("ends before its copies have ended", blockIdx.x);
        if (!fiber.open_group.empty()) fault("ends with copies that were not committed to a group", blockIdx.x);
        fiber.open_group.clear();
        fiber.groups.clear();
        fiber.copied.clear();
    }
    for (int i = 0; i < 4096; ++i)
        if (memory[shared_bytes + i] != 0xff) fault("writes behind the requested shared memory", i);
}

// Runs each warp as far ahead as allowed. Returns false if no thread was ready.
inline bool progress() {
    const int warp_count = (int(fibers.size()) + 31) / 32;
    bool any = false;
    for (bool moved = true; moved; any |= moved) {
        moved = false;
        for (const int warp : sequence(warp_count))
            while (advance(warp)) moved = true;
        const auto polite = [](const Fiber& each) { return !each.done && each.awaited == &patience && each.was == patience; };
        if (!moved && std::any_of(fibers.begin(), fibers.end(), polite)) ++patience, moved = true;
    }
    return any;
}

// Returns true if all remaining threads wait for their cluster.
inline bool waits(const std::vector<Fiber>& threads) {
    bool any = false;
    for (const Fiber& fiber : threads) {
        if (!fiber.done && fiber.awaited != &cluster_meetings) return false;
        any |= !fiber.done;
    }
    return any;
}

inline void exchange(Parked& block) {
    std::swap(fibers, block.fibers);
    std::swap(order_of_accesses, block.order_of_accesses);
    std::swap_ranges(warps, warps + 32, block.warps);
    std::swap_ranges(places, places + 16, block.places);
    std::swap(barriers, block.barriers);
    std::swap(deliveries, block.deliveries);
}

inline void park() {
    Parked& mine = parked[rank];
    exchange(mine);
    mine.memory.assign(memory, memory + shared_bytes + 4096);
    mine.block = blockIdx.x;
}

// Calls `act` while the block `index` is the current block.
template <class Act>
void as_block(u32 index, Act act) {
    rank = index;
    exchange(parked[index]);
    std::copy(parked[index].memory.begin(), parked[index].memory.end(), memory);
    blockIdx.x = parked[index].block;
    act();
    std::copy(memory, memory + parked[index].memory.size(), parked[index].memory.begin());
    exchange(parked[index]);
}

// Blocks of a cluster take turns, each until all its threads wait; they synchronise when no thread waits otherwise.
inline void run_cluster() {
    for (bool moved = true; moved;) {
        moved = false;
        if (std::all_of(parked.begin(), parked.end(), [](const Parked& each) { return waits(each.fibers); })) {
            cluster_memory.clear();
            for (const Parked& each : parked) cluster_memory.push_back(each.memory);
            ++cluster_meetings;
        }
        for (const int i : sequence(cluster_size)) as_block(i, [&] { moved |= progress(); });
    }
    for (u32 i = 0; i < cluster_size; ++i) as_block(i, end_block);
}

void** pointers;

template <class A>
A passed(void* argument) {
    if constexpr (std::is_pointer_v<A>) return static_cast<A>(argument);
    A value{};
    if constexpr (!std::is_pointer_v<A>) std::memcpy(&value, argument, sizeof value);
    return value;
}

template <class... A, std::size_t... I>
void call(void (*kernel)(A...), std::index_sequence<I...>) {
    kernel(passed<A>(pointers[I])...);
}

template <class... A>
void call(void (*kernel)(A...)) { call(kernel, std::index_sequence_for<A...>()); }

// Runs the blocks of one cluster, or one block without a cluster: each block up to its first cluster barrier, then all
// blocks in turns.
inline void run_blocks(int cluster) {
    parked.clear();
    parked.resize(cluster_size);
    u32 waiting = 0;
    for (const int member : sequence(cluster_size)) {
        rank = member;
        blockIdx.x = cluster * cluster_size + rank;
        fibers.resize(blockDim.x * blockDim.y * blockDim.z);
        start_block();
        progress();
        if (waits(fibers))
            ++waiting, park();
        else
            end_block();
        if (fault_text[0]) return;
    }
    if (waiting == cluster_size)
        run_cluster();
    else if (waiting)
        fault("waits forever for its cluster", blockIdx.x);
}

// Runs a kernel with `cluster` blocks per cluster. Returns the first fault; empty on success.
inline const char* run(void (*kernel)(), void** arguments, const u32* grid, const u32* block, int bytes, u32 cluster,
                       u32 order, bool at_once) {
    body = kernel;
    pointers = arguments;
    schedule = order;
    shuffling.seed(order);
    eager = at_once;
    shared_bytes = bytes;
    fault_text[0] = 0;
    gridDim = Index{grid[0], grid[1], grid[2]};
    blockDim = Index{block[0], block[1], block[2]};
    cluster_size = cluster;
    for (Meeting& meeting : warps) meeting = Meeting();
    for (Meeting& meeting : places) meeting = Meeting();
    for (blockIdx.z = 0; blockIdx.z < grid[2]; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid[1]; ++blockIdx.y)
            for (const int first : sequence(grid[0] / cluster)) {
                run_blocks(first);
                if (fault_text[0]) return fault_text;
            }
    return fault_text;
}

}  // namespace simt

// --- CUDA C++ built-ins ------------------------------------------------------------------------------------------

template <int THREADS, int PLACE = 1>
void meet() { simt::meet_in_order(simt::places[PLACE], THREADS); }

template <int THREADS>
void meet_at(int place) { simt::meet_in_order(simt::places[place], THREADS); }

template <int THREADS>
void arrive_at(int place) {
    simt::Meeting& meeting = simt::places[place];
    simt::order_of_accesses.release(simt::current, meeting.arrived);
    if (++meeting.present < THREADS) return;
    meeting.met = meeting.arrived;
    meeting.present = 0;
    ++meeting.past;
}

inline void __syncthreads() { simt::meet_in_order(simt::places[0], int(simt::fibers.size())); }

inline void __syncwarp() { simt::meet_in_order(simt::warps[simt::current / 32], 32, simt::lane()); }

inline float __shfl_xor_sync(u32, float x, int mask) {
    struct Mine { float given, got; int from; } mine{x, 0, simt::lane() ^ mask};
    simt::warp(mine, [](Mine** all) { for (int i = 0; i < 32; ++i) all[i]->got = all[all[i]->from]->given; });
    return mine.got;
}

inline float __shfl_sync(u32, float x, int from) {
    struct Mine { float given, got; int from; } mine{x, 0, from};
    simt::warp(mine, [](Mine** all) { for (int i = 0; i < 32; ++i) all[i]->got = all[all[i]->from]->given; });
    return mine.got;
}

inline bool __any_sync(u32, bool x) {
    bool mine = x;
    simt::warp(mine, [](bool** all) {
        bool any = false;
        for (int i = 0; i < 32; ++i) any |= *all[i];
        for (int i = 0; i < 32; ++i) *all[i] = any;
    });
    return mine;
}

template <class Number>
Number atomicAdd(Number* number, Number more) {
    const simt::OnBehalf of_memory;  // atomic accesses need no order
    return std::exchange(*number, *number + more);
}
inline void __threadfence() {}
inline float __fdividef(float a, float b) { return a / b; }

inline u32 shared_address(const void* pointer) { return u32(static_cast<const unsigned char*>(pointer) - memory); }

// --- tensor cores -----------------------------------------------------------------------------------------------

namespace simt {

inline void load_matrices(u32 (&r)[4], u32 address, bool transposed) {
    struct Mine { u32 address; u32* r; bool transposed; } mine{address, r, transposed};
    warp(mine, [](Mine** all) {
        for (int matrix = 0; matrix < 4; ++matrix) {
            u16 rows[8][8];
            for (int row = 0; row < 8; ++row) {
                const u32 address = all[matrix * 8 + row]->address;
                std::memcpy(rows[row], at(address, 16, 16), 16);
                order_of_accesses.read(current / 32 * 32 + matrix * 8 + row, address, 16);
                read_by_threads.resize(std::max<std::size_t>(read_by_threads.size(), address / 16 + 1));
                read_by_threads[address / 16] = true;
            }
            for (int i = 0; i < 32; ++i) {
                const int major = i / 4, minor = i % 4 * 2;
                all[i]->r[matrix] = all[i]->transposed ? rows[minor][major] | u32(rows[minor + 1][major]) << 16
                                                       : rows[major][minor] | u32(rows[major][minor + 1]) << 16;
            }
        }
    });
}

}  // namespace simt

inline void ldmatrix(u32 (&r)[4], u32 address) { simt::load_matrices(r, address, false); }
inline void ldmatrix_transposed(u32 (&r)[4], u32 address) { simt::load_matrices(r, address, true); }

inline void stmatrix(u32 address, u32 a, u32 b, u32 c, u32 d) {
    struct Mine { u32 address, r[4]; };
    Mine mine{address, a, b, c, d};
    simt::warp(mine, [](Mine** all) {
        for (int i = 0; i < 32; ++i) simt::order_of_accesses.write(simt::current / 32 * 32 + i, all[i]->address, 16);
        for (int matrix = 0; matrix < 4; ++matrix)
            for (int i = 0; i < 32; ++i) {
                char* const row = static_cast<char*>(simt::at(all[matrix * 8 + i / 4]->address, 16, 16));
                std::memcpy(row + i % 4 * 4, &all[i]->r[matrix], 4);
            }
    });
}

namespace simt {

inline void multiply(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4], float (*number)(u32, int)) {
    struct Mine { float* d; const u32* a; u32 b[2]; const float* c; };
    Mine mine{d, a, b0, b1, c};
    warp(mine, [number](Mine** all) {
        float left[16][16], right[16][8];
        for (int i = 0; i < 32; ++i) {
            const int group = i / 4, place = i % 4 * 2;
            for (int e = 0; e < 2; ++e) {
                for (int r = 0; r < 4; ++r)
                    left[group + r % 2 * 8][place + r / 2 * 8 + e] = number(all[i]->a[r], e);
                for (int r = 0; r < 2; ++r) right[place + r * 8 + e][group] = number(all[i]->b[r], e);
            }
        }
        for (int i = 0; i < 32; ++i)
            for (int r = 0; r < 4; ++r) {
                const int row = i / 4 + r / 2 * 8, column = i % 4 * 2 + r % 2;
                float sum = all[i]->c[r];
                for (int k = 0; k < 16; ++k) sum += left[row][k] * right[k][column];
                all[i]->d[r] = sum;
            }
    });
}

inline float bfloat_of(u32 pair, int i) {
    const u32 bits = i ? pair & 0xffff0000 : pair << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

}  // namespace simt

inline void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    simt::multiply(d, a, b0, b1, c, simt::half_of);
}

inline void mma_bfloats(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    simt::multiply(d, a, b0, b1, c, simt::bfloat_of);
}

inline u32 turn_matrix(u32 pair) {
    struct Mine { u32 given, got; } mine{pair, 0};
    simt::warp(mine, [](Mine** all) {
        u16 matrix[8][8];
        for (int i = 0; i < 32; ++i) std::memcpy(&matrix[i / 4][i % 4 * 2], &all[i]->given, 4);
        for (int i = 0; i < 32; ++i) all[i]->got = matrix[i % 4 * 2][i / 4] | u32(matrix[i % 4 * 2 + 1][i / 4]) << 16;
    });
    return mine.got;
}

inline void mma_e4m3(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, const float (&c)[4]) {
    struct Mine { float* d; const u32* a; u32 b[2]; const float* c; };
    Mine mine{d, a, b0, b1, c};
    simt::warp(mine, [](Mine** all) {
        float left[16][32], right[32][8];
        for (int i = 0; i < 32; ++i) {
            const int group = i / 4, place = i % 4 * 4;
            for (int e = 0; e < 4; ++e) {
                for (int r = 0; r < 4; ++r)
                    left[group + r % 2 * 8][place + r / 2 * 16 + e] = simt::e4m3_of(all[i]->a[r], e);
                for (int r = 0; r < 2; ++r) right[place + r * 16 + e][group] = simt::e4m3_of(all[i]->b[r], e);
            }
        }
        for (int i = 0; i < 32; ++i)
            for (int r = 0; r < 4; ++r) {
                const int row = i / 4 + r / 2 * 8, column = i % 4 * 2 + r % 2;
                float sum = all[i]->c[r];
                for (int k = 0; k < 32; ++k) sum += left[row][k] * right[k][column];
                all[i]->d[r] = sum;
            }
    });
}

// --- numbers ----------------------------------------------------------------------------------------------------

inline u32 pack_halves(float low, float high) { return simt::narrowed(low) | u32(simt::narrowed(high)) << 16; }
inline float2 unpack_halves(u32 pair) { return float2{simt::half_of(pair, 0), simt::half_of(pair, 1)}; }
inline u32 lower_halves(u32 a, u32 b) { return (a & 0xffff) | b << 16; }
inline u32 upper_halves(u32 a, u32 b) { return a >> 16 | (b & 0xffff0000); }
inline float2 unpack_bfloats(u32 pair) { return float2{simt::bfloat_of(pair, 0), simt::bfloat_of(pair, 1)}; }

inline u32 pack_bfloats(float low, float high) {
    const auto rounded = [](float x) {
        u32 bits;
        std::memcpy(&bits, &x, 4);
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;  // to nearest, ties to even; no NaN is expected
    };
    return rounded(low) | rounded(high) << 16;
}

inline u32 lower_halves(u32 bytes) { return pack_halves(simt::e4m3_of(bytes, 0), simt::e4m3_of(bytes, 1)); }
inline u32 upper_halves(u32 bytes) { return pack_halves(simt::e4m3_of(bytes, 2), simt::e4m3_of(bytes, 3)); }
inline u32 pack_e4m3(float a, float b, float c, float d) {
    return simt::to_e4m3(a) | simt::to_e4m3(b) << 8 | simt::to_e4m3(c) << 16 | simt::to_e4m3(d) << 24;
}

template <u32 SELECTOR>
u32 permute(u32 low, u32 high) {
    const std::uint64_t bytes = std::uint64_t(high) << 32 | low;
    u32 chosen = 0;
    for (int i = 0; i < 4; ++i) chosen |= u32(bytes >> 8 * (SELECTOR >> 4 * i & 7) & 0xff) << 8 * i;
    return chosen;
}

inline float widen(u16 half) { return simt::widened(half); }
inline float widen(float x) { return x; }
inline float exp2_approximate(float x) { return exp2f(x); }
inline float reciprocal_approximate(float x) { return 1 / x; }
inline float max_or_nan(float x, float y) { return x != x || y != y ? NAN : fmaxf(x, y); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }

// --- global memory ----------------------------------------------------------------------------------------------

enum class Loads { cached, streamed, once };
enum class Stores { cached, streamed };

namespace simt {

template <class Pack>
void check_global(const Pack* pack) {
    if (reinterpret_cast<std::size_t>(pack) % sizeof(Pack)) fault("misaligned global memory address", sizeof(Pack));
}

}  // namespace simt

template <Loads HOW, class Pack>
Pack load_global(const Pack* from) { return simt::check_global(from), *from; }

inline float4 load_shared_result(const float4* from) { return simt::check_global(from), *from; }

template <Stores HOW, class Pack>
void store_global(Pack* to, Pack pack) { simt::check_global(to), *to = pack; }

template <class Pack>
Pack forgotten(Pack x) { return x; }

// --- asynchronous copies ----------------------------------------------------------------------------------------

template <int BYTES, int L2_PREFETCH>
void copy_async(u32 shared, const void* global, bool inside) {
    if (reinterpret_cast<std::size_t>(global) % BYTES) simt::fault("misaligned global memory address", BYTES);
    const simt::Copy copy{simt::at(shared, BYTES, BYTES), global, BYTES, inside};
    auto& group = simt::fibers[simt::current].open_group;
    simt::order_of_accesses.write(simt::current, shared, BYTES, simt::Agent::copies);
    group.push_back(copy);
    if (simt::eager) simt::carry_out(group), group.pop_back();
}

inline void commit_copies() {
    simt::Fiber& fiber = simt::fibers[simt::current];
    fiber.groups.push_back(std::move(fiber.open_group));
    fiber.copied.push_back(simt::order_of_accesses.copies(simt::current));
    fiber.open_group.clear();
}

template <int PENDING>
void await_copies() {
    simt::Fiber& fiber = simt::fibers[simt::current];
    for (; fiber.groups.size() > PENDING; fiber.groups.pop_front(), fiber.copied.pop_front()) {
        simt::carry_out(fiber.groups.front());
        simt::order_of_accesses.await_copies(simt::current, fiber.copied.front());
    }
}

namespace simt {

inline void carry_out_all() {
    Fiber& fiber = fibers[current];
    for (const std::vector<Copy>& group : fiber.groups) carry_out(group);
    carry_out(fiber.open_group);
    fiber.groups.clear();
    fiber.copied.clear();
    fiber.open_group.clear();
}

}  // namespace simt

inline void await_all_copies() {
    simt::carry_out_all();
    simt::order_of_accesses.await_copies(simt::current, simt::order_of_accesses.copies(simt::current));
}

// --- barriers ---------------------------------------------------------------------------------------------------

inline void barrier_init(u32 barrier, int arrivals) {
    simt::at(barrier, 8, 8);
    simt::barriers[barrier] = simt::Barrier{0, u32(arrivals), u32(arrivals)};
}

namespace simt {

inline Barrier& barrier_of(u32 block, u32 barrier) {
    Barrier& state = (block == rank ? barriers : parked[block].barriers)[barrier];
    if (!state.expected) fault("the barrier was not initialised", barrier);
    return state;
}

// All threads and bytes have arrived: the next phase begins.
inline void settle(Barrier& state) {
    if (state.pending || state.bytes) return;
    state.pending = state.expected;
    state.met = state.arrived;
    ++state.past;
}

// The last thread to arrive yields. Other threads may then run too far ahead, which reveals missing barriers.
inline void arrive(Barrier& state) {
    const u32 was = state.past;
    if (!state.pending--) fault("more arrivals than a barrier expects", state.expected);
    settle(state);
    if (state.past != was) pause(patience, patience);
}

}  // namespace simt

inline void barrier_arrive(u32 barrier) {
    simt::Barrier& state = simt::barrier_of(simt::rank, barrier);
    simt::order_of_accesses.release(simt::current, state.arrived);
    simt::arrive(state);
}

inline void barrier_arrive_in_block(u32 barrier, int block) {
    const auto& threads = simt::parked[block].fibers;
    if (u32(block) != simt::rank && std::all_of(threads.begin(), threads.end(), [](const simt::Fiber& each) { return each.done; }))
        simt::fault("arrives at a block that has ended", block);
    if (u32(block) == simt::rank) return barrier_arrive(barrier);
    simt::arrive(simt::barrier_of(block, barrier));
}

inline int rank_in_cluster() { return simt::rank; }

inline void barrier_arrive_after_copies(u32 barrier) {
    simt::carry_out_all();
    simt::Barrier& state = simt::barrier_of(simt::rank, barrier);
    simt::order_of_accesses.release_copies(simt::current, state.arrived, simt::Agent::copies);
    simt::order_of_accesses.release(simt::current, state.arrived);
    simt::arrive(state);
}

inline void barrier_await(u32 barrier, u32 parity) {
    simt::Barrier& state = simt::barrier_of(simt::rank, barrier);
    while (state.past % 2 == parity) {
        const u32 was = state.past;
        for (auto& queue = simt::deliveries[barrier]; !queue.empty(); queue.pop_front()) queue.front()();
        if (state.past != was) continue;
        ++state.waiting;
        simt::pause(state.past, was);
        --state.waiting;
    }
    simt::order_of_accesses.acquire(simt::current, state.met);
}

template <int BLOCKS>
void meet_cluster() {
    if (simt::cluster_size != BLOCKS) simt::fault("the cluster size of the kernel differs from the launch", BLOCKS);
    simt::order_of_accesses.release(simt::current, simt::places[15].arrived);
    simt::pause(simt::cluster_meetings, simt::cluster_meetings);
    simt::order_of_accesses.acquire(simt::current, simt::places[15].arrived);
}

template <class T>
const T* in_block(const T* place, int block) {
    const auto offset = reinterpret_cast<const unsigned char*>(place) - memory;
    return reinterpret_cast<const T*>(simt::cluster_memory[block].data() + offset);
}

inline void await_previous_launch() {}
inline void allow_next_launch() {}

// --- accesses by plain pointers, which -fsanitize=thread reports -------------------------------------------------

#ifdef CHECK_ORDER
namespace simt {

// Calls `record` with the offset of a place in shared memory, as `order_of_accesses` counts.
template <class Record>
SIMT_UNCHECKED void plain(const void* pointer, Record record) {
    const char* const place = static_cast<const char*>(pointer);
    const std::size_t offset = place - reinterpret_cast<char*>(memory);
    if (on_behalf) return;
    if (offset < std::size_t(shared_bytes))
        record(u32(offset));
    else if (place >= __start_simt_shared && place < __stop_simt_shared)
        record(declared_from() + u32(place - __start_simt_shared));
}

SIMT_UNCHECKED void read_plain(const void* place, u32 bytes) {
    plain(place, [=](u32 offset) { order_of_accesses.read(current, offset, bytes); });
}

SIMT_UNCHECKED void write_plain(const void* place, u32 bytes) {
    plain(place, [=](u32 offset) { order_of_accesses.write(current, offset, bytes); });
}

}  // namespace simt

#define SIMT_HOOK extern "C" SIMT_UNCHECKED void
#define SIMT_ACCESS(KIND, BYTES)                                                                              \
    SIMT_HOOK __tsan_##KIND##BYTES(void* place) { simt::KIND##_plain(place, BYTES); }                         \
    SIMT_HOOK __tsan_unaligned_##KIND##BYTES(void* place) { simt::KIND##_plain(place, BYTES); }
#define SIMT_ACCESSES(KIND)                                                                                   \
    SIMT_ACCESS(KIND, 1) SIMT_ACCESS(KIND, 2) SIMT_ACCESS(KIND, 4) SIMT_ACCESS(KIND, 8) SIMT_ACCESS(KIND, 16) \
    SIMT_HOOK __tsan_##KIND##_range(void* place, std::size_t bytes) { simt::KIND##_plain(place, bytes); }

SIMT_ACCESSES(read)
SIMT_ACCESSES(write)
SIMT_HOOK __tsan_init() {}
SIMT_HOOK __tsan_func_entry(void*) {}
SIMT_HOOK __tsan_func_exit() {}
SIMT_HOOK __tsan_vptr_update(void*, void*) {}
SIMT_HOOK __tsan_vptr_read(void*) {}
#endif
