// Stands in for templates/include/tensor_map.cuh. A box is copied as the PTX ISA describes it, "Tensors": zeros outside of
// the array, 16-byte chunks of a row swizzled by bits of the address; it counts whole. Copies are carried out when somebody
// waits for their barrier, or at once.

struct alignas(128) TensorMap {
    const unsigned char* array;
    u32 rank, element, swizzle, nothing;
    u32 shape[5], box[5];  // the innermost axis first
};

namespace simt {

struct Box { u32 shared; TensorMap map; int corner[5]; };
std::map<u32, std::deque<Box>> boxes;  // under way, by barrier

inline void settle(u32 barrier) {
    Barrier& state = barriers[barrier];
    if (state.pending || state.bytes) return;
    state.pending = state.expected;
    ++state.past;
}

inline void carry_out(const Box& box, u32 barrier) {
    const TensorMap& map = box.map;
    const u32 row_bytes = map.box[0] * map.element, swizzle = map.swizzle;
    if (box.shared % (swizzle ? swizzle * 8 : 128)) fault("a box at a place that is not aligned", box.shared);
    if (swizzle && row_bytes != swizzle) fault("rows of a box are not as long as its swizzle", row_bytes);
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
            unsigned char* const chunk = static_cast<unsigned char*>(at(to, 16, 16));
            for (u32 within = 0; within < 16; within += map.element) {
                const int x = box.corner[0] + int((byte + within) / map.element);
                if (inside && x >= 0 && x < int(map.shape[0]))
                    std::memcpy(chunk + within, map.array + (place + x) * map.element, map.element);
                else
                    std::memset(chunk + within, 0, map.element);
            }
        }
    }
    Barrier& state = barriers[barrier];
    state.bytes -= rows * row_bytes;
    if (state.bytes < 0) fault("more bytes arrive than their barrier expects", barrier);
    settle(barrier);
}

inline void order(u32 shared, const TensorMap& map, u32 barrier, std::vector<int> corner) {
    if (!barriers[barrier].expected) fault("a barrier that nobody made", barrier);
    if (corner.size() != map.rank) fault("a tensor map of another rank", map.rank);
    Box box{shared, map, {}};
    std::copy(corner.begin(), corner.end(), box.corner);
    if (eager || barriers[barrier].waiting) return carry_out(box, barrier);
    boxes[barrier].push_back(box);
}

// Somebody waits: nothing is put off any longer.
inline void deliver(u32 barrier) {
    for (std::deque<Box>& queue = boxes[barrier]; !queue.empty(); queue.pop_front()) carry_out(queue.front(), barrier);
}

inline void end_boxes() {
    for (const auto& [barrier, queue] : boxes)
        if (!queue.empty()) fault("ends before its boxes have arrived", barrier);
    for (const auto& [barrier, state] : barriers)
        if (state.bytes > 0) fault("a barrier expects bytes that never come", barrier);
    boxes.clear();
}

const bool registered = (deliver_to = deliver, end_copies = end_boxes, true);

}  // namespace simt

inline void publish_barriers() {}

inline void barrier_expect(u32 barrier, int bytes) {
    simt::barriers[barrier].bytes += bytes;
    barrier_arrive(barrier);
}

inline void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y) {
    simt::order(shared, map, barrier, {x, y});
}
inline void copy_box(u32 shared, const TensorMap& map, u32 barrier, int x, int y, int z) {
    simt::order(shared, map, barrier, {x, y, z});
}

inline void prefetch_map(const TensorMap&) {}
