// Copies of whole tiles by the TMA unit (tensor memory accelerator, sm_90): one thread issues them, and a barrier
// counts their bytes.
// See "cp.async.bulk.tensor" and "mbarrier" in the PTX ISA.

// A tensor map, which the driver's cuTensorMapEncodeTiled creates; family.toml declares the maps of a kernel.
struct alignas(128) TensorMap {
    unsigned char opaque[128];
};

// Makes initialised barriers visible to the TMA unit.
__device__ __forceinline__ void publish_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and adds to the number of bytes that this phase of the barrier waits for. A box counts completely, including
// its parts outside the array.
__device__ __forceinline__ void barrier_expect(u32 barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
}

// Ensures that reads by BLOCKS blocks, which a barrier follows, precede later writes of the TMA unit. The
// TMA unit writes through another memory proxy, which the barrier does not order.
template <int BLOCKS>
__device__ __forceinline__ void overwrite_what_was_read() {
    if constexpr (BLOCKS == 1)
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    else
        asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
}

// Copies the box at (x, y) or (x, y, z), where x is the index in a row. If rows are swizzled, the destination must be a
// multiple of 1024 bytes.
__device__ __forceinline__ void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4 }], [%2];"
                 :: "r"(shared), "l"(&map), "r"(barrier), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5 }], [%2];"
                 :: "r"(shared), "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, { %3, %4, %5, %6 }], [%2];"
                 :: "r"(shared), "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
}

// Copies the box to the same address in every block of the cluster. The barrier at the same address counts its bytes.
template <int BLOCKS>
__device__ __forceinline__ void copy_box_to_cluster(u32 shared, const TensorMap& map, u32 barrier, int x, int y) {
    if constexpr (BLOCKS == 1) return copy_box(shared, map, barrier, x, y);
    constexpr u16 ALL = (1 << BLOCKS) - 1;
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, { %3, %4 }], [%2], %5;"
                 :: "r"(shared), "l"(&map), "r"(barrier), "r"(x), "r"(y), "h"(ALL) : "memory");
}

template <int BLOCKS>
__device__ __forceinline__ void copy_box_to_cluster(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z) {
    if constexpr (BLOCKS == 1) return copy_box(shared, map, barrier, x, y, z);
    constexpr u16 ALL = (1 << BLOCKS) - 1;
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, { %3, %4, %5 }], [%2], %6;"
                 :: "r"(shared), "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(ALL) : "memory");
}

template <int BLOCKS>
__device__ __forceinline__ void copy_box_to_cluster(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
    if constexpr (BLOCKS == 1) return copy_box(shared, map, barrier, x, y, z, w);
    constexpr u16 ALL = (1 << BLOCKS) - 1;
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, { %3, %4, %5, %6 }], [%2], %7;"
                 :: "r"(shared), "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w), "h"(ALL) : "memory");
}

// Called before the first use of the map.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}
