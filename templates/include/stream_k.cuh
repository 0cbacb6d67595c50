// Stream-K: the steps of all items are divided into equal shares of consecutive steps, one per block. If a share ends
// within an item, the next block continues the item (Osama et al., Stream-K, arXiv:2301.03598).

template <int STEPS, int BLOCKS>
struct Shares {
    // First step of a block's share; the share ends where the next block's share begins.
    static __device__ __forceinline__ int begin(int block) { return static_cast<long long>(STEPS) * block / BLOCKS; }

    // Block whose share contains a step.
    static __device__ __forceinline__ int owner(int step) { return ((step + 1ll) * BLOCKS - 1) / largest(1, STEPS); }
};

// Slot in which a part of an item is stored, given the slot of its first owner. Two slots per block are sufficient: a
// block begins at most one item that another finishes, and continues at most one that another began.
__device__ __forceinline__ int stream_k_slot(int first_slot, int part) { return first_slot + 2 * part + (part == 0); }
