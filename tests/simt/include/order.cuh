// Checks the order of accesses to shared memory: of two accesses to the same bytes by different threads, at least one of
// them a write, a chain of barriers must order one before the other. Unlike a wrong result, a missing barrier is found
// in whatever order the threads run. The method is that of vector clocks (Flanagan and Freund 2009, "FastTrack"). A
// source is checked if it is compiled with CHECK_ORDER and -fsanitize=thread: the compiler then calls a function of
// ptx.cuh for every access by a plain pointer. The functions here are excluded from this, because it makes them slow.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#define SIMT_UNCHECKED __attribute__((no_sanitize("thread")))

namespace simt {

#ifdef CHECK_ORDER
constexpr bool ORDERED = true;
#else
constexpr bool ORDERED = false;
#endif

// Agents whose accesses are ordered: a thread, its cp.async copies, its copies by the TMA unit, and the products by
// wgmma of its warp, of which the first thread counts. Copies and products precede the later accesses of a thread only
// after a wait.
enum class Agent { thread, copies, boxes, products };
constexpr int AGENTS = 4;

typedef std::vector<std::uint32_t> Clock;  // by agent: the time up to which its accesses are known to have happened

inline void fault(const char* what, std::uint32_t where);  // adds the current thread

class Order {
    typedef std::uint32_t u32;
    struct Access { u32 agent, time; };
    struct Word { Access write{0, 0}; std::vector<Access> reads; };

    u32 threads = 0;
    std::vector<Clock> clocks;  // by thread
    std::vector<u32> issued;    // by agent: number of asynchronous accesses
    std::vector<Word> words;    // every two bytes

    SIMT_UNCHECKED u32 agent(u32 thread, Agent kind) const { return u32(kind) * threads + thread; }

    SIMT_UNCHECKED Access access(u32 thread, Agent kind) {
        const u32 of = agent(thread, kind);
        return {of, kind == Agent::thread ? clocks[thread][thread] : ++issued[of]};
    }

    SIMT_UNCHECKED void expect(const u32* clock, const Access& earlier, const char* what) const {
        if (clock[earlier.agent] < earlier.time) fault(what, earlier.agent % threads);
    }

    SIMT_UNCHECKED static void join(Clock& into, const Clock& other) {
        if (into.size() < other.size()) into.resize(other.size());
        u32* const to = into.data();
        const u32 *const from = other.data(), count = other.size();
        for (u32 i = 0; i < count; ++i) to[i] = to[i] > from[i] ? to[i] : from[i];
    }

    // The words that overlap with the bytes.
    SIMT_UNCHECKED std::pair<Word*, Word*> within(u32 address, u32 bytes) {
        const u32 all = words.size(), first = address / 2, end = (address + bytes + 1) / 2;
        return {words.data() + (first < all ? first : all), words.data() + (end < all ? end : all)};
    }

public:
    void begin(u32 thread_count, u32 bytes) {
        if (!ORDERED) return;
        threads = thread_count;
        words.assign((bytes + 1) / 2, Word());
        issued.assign(AGENTS * threads, 0);
        clocks.assign(threads, Clock(AGENTS * threads));
        for (u32 i = 0; i < threads; ++i) clocks[i][i] = 1;
    }

    SIMT_UNCHECKED void read(u32 thread, u32 address, u32 bytes, Agent kind = Agent::thread) {
        if (!ORDERED) return;
        const u32* const clock = clocks[thread].data();
        const Access mine = access(kind == Agent::products ? thread / 32 * 32 : thread, kind);
        const auto [begin, end] = within(address, bytes);
        for (Word* word = begin; word < end; ++word) {
            expect(clock, word->write, "reads what another thread writes, and no barrier orders them");
            Access* own = word->reads.data();
            Access* const last = own + word->reads.size();
            while (own < last && own->agent != mine.agent) ++own;
            if (own < last)
                *own = mine;
            else
                word->reads.push_back(mine);
        }
    }

    SIMT_UNCHECKED void write(u32 thread, u32 address, u32 bytes, Agent kind = Agent::thread) {
        if (!ORDERED) return;
        const u32* const clock = clocks[thread].data();
        const Access mine = access(thread, kind);
        const auto [begin, end] = within(address, bytes);
        for (Word* word = begin; word < end; ++word) {
            expect(clock, word->write, "writes what another thread writes, and no barrier orders them");
            const Access* const reads = word->reads.data();
            for (u32 i = 0, count = word->reads.size(); i < count; ++i)
                expect(clock, reads[i], "writes what another thread reads, and no barrier orders them");
            word->reads.clear();
            word->write = mine;
        }
    }

    // The accesses before the thread's arrival at a barrier precede all that follows the barrier.
    SIMT_UNCHECKED void release(u32 thread, Clock& barrier) {
        if (!ORDERED) return;
        join(barrier, clocks[thread]);
        ++clocks[thread][thread];
    }

    SIMT_UNCHECKED void acquire(u32 thread, const Clock& barrier) {
        if (ORDERED) join(clocks[thread], barrier);
    }

    // Number of the thread's cp.async copies until now.
    SIMT_UNCHECKED u32 copies(u32 thread) const { return ORDERED ? issued[agent(thread, Agent::copies)] : 0; }

    // The thread has waited for the first `copies` of its cp.async copies.
    SIMT_UNCHECKED void await_copies(u32 thread, u32 copies) {
        if (ORDERED) clocks[thread][agent(thread, Agent::copies)] = copies;
    }

    // The thread has waited for the products of its warp.
    SIMT_UNCHECKED void await_products(u32 thread) {
        const u32 of = agent(thread / 32 * 32, Agent::products);
        if (ORDERED) clocks[thread][of] = issued[of];
    }

    // The barrier's phase ends only after the thread's copies.
    void release_copies(u32 thread, Clock& barrier, Agent kind) {
        if (!ORDERED) return;
        Clock done(AGENTS * threads);
        done[agent(thread, kind)] = issued[agent(thread, kind)];
        join(barrier, done);
    }
};

Order order_of_accesses;
bool on_behalf;  // the current thread acts for others, for which the accesses are recorded elsewhere

struct OnBehalf {
    const bool was = std::exchange(on_behalf, true);
    ~OnBehalf() { on_behalf = was; }
};

}  // namespace simt
