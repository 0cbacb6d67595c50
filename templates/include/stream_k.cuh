// Stream-K: all steps of the work in equal shares, one block's after the other's. A share may end within an item, with which
// the next block goes on (Osama et al., Stream-K, arXiv:2301.03598).

template <int STEPS, int BLOCKS>
struct Shares {
    // Where a block's share begins, which ends where the next one's does.
    static __device__ __forceinline__ int begin(int block) { return static_cast<long long>(STEPS) * block / BLOCKS; }

    // Whose a step is.
    static __device__ __forceinline__ int owner(int step) { return ((step + 1ll) * BLOCKS - 1) / largest(1, STEPS); }
};

// Where a part of an item is put aside, from the place that is the first owner's: a block begins at most one item that
// another finishes, and goes on with at most one.
__device__ __forceinline__ int stream_k_slot(int first_slot, int part) { return first_slot + 2 * part + (part == 0); }
