// Rows of 16-bit elements in shared memory, laid out so that the eight 16-byte chunks an 8x8 matrix reads from eight
// neighbouring rows lie in different banks: by XOR of chunk and row, by a chunk of padding after each row, or not.

enum class Layout { none, pad, xor_swizzle };

template <Layout LAYOUT, int COLUMNS>
struct Tile {
    static constexpr int ROW_BYTES = COLUMNS * 2 + (LAYOUT == Layout::pad ? 16 : 0);

    // Byte offset of a 16-byte chunk.
    static __device__ __forceinline__ u32 chunk(int row, int column) {
        return row * ROW_BYTES + ((LAYOUT == Layout::xor_swizzle ? column ^ (row & 7) : column) << 4);
    }

    // `address`, of chunk 0 or 1, moved by an even number of chunks that is known at compile time. Within a group of
    // eight, the swizzle makes this an XOR on the whole address, which needs no knowledge of the row: tiles start at
    // multiples of 128 bytes there. Whole groups are an addition, which costs no register.
    static __device__ __forceinline__ u32 right(u32 address, int chunks) {
        if constexpr (LAYOUT == Layout::xor_swizzle) return (address ^ ((chunks & 7) << 4)) + ((chunks & ~7) << 4);
        return address + (chunks << 4);
    }

    // Row addresses for ldmatrix / stmatrix, relative to the tile's first row. `upright`: the four matrices are
    // (rows 0-7, chunk 0), (rows 8-15, chunk 0), (0-7, 1), (8-15, 1): an a operand, or b read transposed.
    static __device__ __forceinline__ u32 upright(int lane) { return chunk(lane & 15, lane >> 4); }

    // The four matrices are (rows 0-7, chunk 0), (0-7, 1), (8-15, 0), (8-15, 1): two b operands of a row-major matrix.
    static __device__ __forceinline__ u32 paired(int lane) {
        return chunk((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1);
    }
};

// Copies ROWS rows, from `first_row` on, of a matrix of LIMIT rows; rows beyond it become zeros.
// WIDTH: elements in one copy; THREADS: how many share the work.
template <class TILE, int ROWS, int COLUMNS, int LIMIT, int WIDTH, int THREADS, int L2_PREFETCH>
__device__ __forceinline__ void copy_rows(u32 tile, const u16* matrix, int first_row, int thread) {
    constexpr int PARTS = COLUMNS / WIDTH;
    constexpr int COUNT = ROWS * PARTS, STEPS = ceil_div(COUNT, THREADS);
#pragma unroll (STEPS <= 8 ? STEPS : 4)  // the addresses of more would not fit the registers
    for (int i = 0; i < STEPS; ++i) {
        const int part = thread + i * THREADS;
        const int row = part / PARTS, column = part % PARTS * WIDTH;
        const bool inside = LIMIT % ROWS == 0 || first_row + row < LIMIT;
        const u16* source = matrix + (inside ? (first_row + row) * COLUMNS + column : 0);
        if (COUNT % THREADS == 0 || part < COUNT)
            copy_async<WIDTH * 2, L2_PREFETCH>(tile + TILE::chunk(row, column / 8) + column % 8 * 2, source, inside);
    }
}
