// Replaces templates/include/tensor_map.cuh. Boxes are copied as the PTX ISA describes in its chapter "Tensors": elements
// outside of the array are zero, the 16-byte chunks of a row are swizzled by bits of the address, and the barrier counts
// the bytes of the whole box. Copies happen immediately, or when a thread waits for their barrier.

struct alignas(128) TensorMap {
    const unsigned char* array;
    u32 rank, element, swizzle, nothing;
    u32 shape[5], box[5];  // the innermost axis first
};

namespace simt {

struct Box { u32 shared; TensorMap map; int corner[5]; u32 block; };

inline void carry_out(const Box& box, u32 barrier) {
    const OnBehalf of_boxes;
    const TensorMap& map = box.map;
    const u32 row_bytes = map.box[0] * map.element, swizzle = map.swizzle;
    if (box.shared % (swizzle ? swizzle * 8 : 128)) fault("the shared memory address of a box is misaligned", box.shared);
    if (swizzle && row_bytes != swizzle) fault("the row length of a box differs from its swizzle width", row_bytes);
    u32 rows = 1;
    for (u32 axis = 1; axis < map.rank; ++axis) rows *= map.box[axis];
    for (u32 row = 0; row < rows; ++row) {
        std::size_t place = 0, pitch = map.shape[0];
        bool inside = true;
        u32 rest = row;
        for (u32 axis = 1; axis < map.rank; rest /= map.box[axis++]) {
            const int index = box.corner[axis] + int(rest % map.box[axis]);
            inside &= index >= 0 && index < int(map.shape[axis]);
            place += index * pitch;
            pitch *= map.shape[axis];
        }
        for (u32 byte = 0; byte < row_bytes; byte += 16) {
            u32 to = box.shared + row * row_bytes + byte;
            if (swizzle) to ^= (to >> 7 & (swizzle / 16 - 1)) << 4;
            unsigned char* chunk = static_cast<unsigned char*>(at(to, 16, 16));
            if (box.block != rank) chunk = parked[box.block].memory.data() + to;
            for (u32 within = 0; within < 16; within += map.element) {
                const int x = box.corner[0] + int((byte + within) / map.element);
                if (inside && x >= 0 && x < int(map.shape[0]))
                    std::memcpy(chunk + within, map.array + (place + x) * map.element, map.element);
                else
                    std::memset(chunk + within, 0, map.element);
            }
        }
    }
    Barrier& state = barrier_of(box.block, barrier);
    state.bytes -= rows * row_bytes;
    settle(state);
}

// Copies to the same address of another block of the cluster, and signals its barrier.
inline void order(u32 shared, const TensorMap& map, u32 barrier, std::vector<int> corner, u32 block) {
    if (corner.size() != map.rank) fault("the tensor map has a different rank", map.rank);
    u32 bytes = map.element;
    for (u32 axis = 0; axis < map.rank; ++axis) bytes *= map.box[axis];
    for (u32 chunk = shared / 16; chunk < (shared + bytes) / 16 && chunk < read_by_threads.size(); ++chunk)
        if (read_by_threads[chunk]) fault("a box may overtake earlier reads, because a fence is missing", chunk * 16);
    if (block == rank) {
        order_of_accesses.write(current, shared, bytes, Agent::boxes);
        order_of_accesses.release_copies(current, barrier_of(block, barrier).arrived, Agent::boxes);
    }
    Box box{shared, map, {}, block};
    std::copy(corner.begin(), corner.end(), box.corner);
    if (eager || barrier_of(block, barrier).waiting) return carry_out(box, barrier);
    // otherwise the copy happens once a thread waits for the barrier
    (block == rank ? deliveries : parked[block].deliveries)[barrier].push_back([=]() mutable {
        box.block = rank;
        carry_out(box, barrier);
    });
}

}  // namespace simt

inline void publish_barriers() {}

template <int BLOCKS>
void overwrite_what_was_read() { simt::read_by_threads.clear(); }

inline void barrier_expect(u32 barrier, int bytes) {
    simt::barriers[barrier].bytes += bytes;
    barrier_arrive(barrier);
}

inline void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y) {
    simt::order(shared, map, barrier, {x, y}, simt::rank);
}
inline void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z) {
    simt::order(shared, map, barrier, {x, y, z}, simt::rank);
}
inline void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
    simt::order(shared, map, barrier, {x, y, z, w}, simt::rank);
}

template <int BLOCKS>
void copy_box_to_cluster(u32 shared, const TensorMap& map, u32 barrier, int x, int y) {
    for (u32 block = 0; block < BLOCKS; ++block) simt::order(shared, map, barrier, {x, y}, block);
}

template <int BLOCKS>
void copy_box_to_cluster(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z) {
    for (u32 block = 0; block < BLOCKS; ++block)
        simt::order(shared, map, barrier, {x, y, z}, BLOCKS == 1 ? simt::rank : block);
}

template <int BLOCKS>
void copy_box_to_cluster(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z, int w) {
    for (u32 block = 0; block < BLOCKS; ++block)
        simt::order(shared, map, barrier, {x, y, z, w}, BLOCKS == 1 ? simt::rank : block);
}

inline void prefetch_map(const TensorMap&) {}
