// Rows of elements in shared memory. An 8x8 matrix of 16-bit elements reads eight 16-byte chunks from eight adjacent
// rows. To place them in different banks, `xor_swizzle` combines chunk and row by XOR, and `pad` adds a chunk of
// padding after each row; `none` does not avoid bank conflicts. Bytes are read as pairs.

enum class Layout { none, pad, xor_swizzle };

// The swizzle supports rows of 2, 4 or a multiple of 8 chunks.
template <Layout LAYOUT, int COLUMNS, int ELEMENT = 2>
struct Tile {
    static constexpr int ELEMENT_BYTES = ELEMENT;
    static constexpr int ROW_BYTES = COLUMNS * ELEMENT_BYTES + (LAYOUT == Layout::pad ? 16 : 0);
    static constexpr int GROUP = largest(1, lesser(8, COLUMNS * ELEMENT_BYTES / 16));  // chunks that are permuted

    // Byte offset of a copied row.
    static __device__ __forceinline__ u32 slot(u32 row) { return row; }

    // Byte offset of a 16-byte chunk. Several short rows cover all banks once, and use the same XOR.
    static __device__ __forceinline__ u32 chunk(u32 row, u32 column) {
        if constexpr (LAYOUT == Layout::xor_swizzle) column ^= row / (8 / GROUP) & (GROUP - 1);
        return row * ROW_BYTES + (column << 4);
    }

    // Returns `address` moved by a number of chunks that is known at compile time. `address` is that of chunk 0 or, if
    // the number is even, of chunk 1. Within a group, swizzled chunks are reached by an XOR with the whole address, for
    // which the row need not be known, because tiles start at multiples of 128 bytes. Whole groups are reached by an
    // addition, which needs no register.
    static __device__ __forceinline__ u32 right(u32 address, int chunks) {
        if constexpr (LAYOUT == Layout::xor_swizzle)
            return (address ^ ((chunks & (GROUP - 1)) << 4)) + ((chunks & ~(GROUP - 1)) << 4);
        return address + (chunks << 4);
    }

    // Row addresses for ldmatrix / stmatrix, relative to the tile's first row. `upright`: the four matrices are (rows
    // 0-7, chunk 0), (rows 8-15, chunk 0), (0-7, 1), (8-15, 1): an operand a, or b read transposed.
    static __device__ __forceinline__ u32 upright(u32 lane) { return chunk(lane & 15, lane >> 4); }

    // The four matrices are (rows 0-7, chunk 0), (0-7, 1), (8-15, 0), (8-15, 1): two operands b of a row-major matrix.
    static __device__ __forceinline__ u32 paired(u32 lane) {
        return chunk((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1);
    }
};

// Rows of elements in panels with 128, 64 or 32 bytes per row, one panel after the other. The eight, four or two chunks
// of a row are permuted by XOR with the row, as wgmma requires. With one panel, this is the swizzle above.
template <int COLUMNS, int ROWS, int WIDTH = 128>
struct Panels {
    static constexpr int ROW_BYTES = WIDTH, PANEL_BYTES = ROWS * ROW_BYTES, GROUP = WIDTH / 16;

    static __device__ __forceinline__ u32 slot(u32 row) { return row; }

    static __device__ __forceinline__ u32 chunk(u32 row, u32 column) {
        return column / GROUP * PANEL_BYTES + row * ROW_BYTES + ((column ^ row / (8 / GROUP)) % GROUP << 4);
    }

    static __device__ __forceinline__ u32 right(u32 address, int chunks) {
        return (address ^ (chunks % GROUP << 4)) + chunks / GROUP * PANEL_BYTES;
    }

    static __device__ __forceinline__ u32 upright(u32 lane) { return chunk(lane & 15, lane >> 4); }

    static __device__ __forceinline__ u32 paired(u32 lane) {
        return chunk((lane & 7) + (lane >> 4 << 3), lane >> 3 & 1);
    }
};

// Copies ROWS rows of COLUMNS elements, with distance STRIDE, from `first` of a matrix on; writes zeros where
// `is_inside(row, column)` is false. WIDTH: elements per copy; THREADS: number of threads that share the work;
// WRITTEN_OUT: maximum number of copies of a thread that are unrolled completely; if there are more, WRITTEN_OUT / 2
// are unrolled at a time. If all copies of a thread are in one column, their addresses differ by constants, which need
// no registers.
template <class TILE, int ROWS, int COLUMNS, int STRIDE, int WIDTH, int THREADS, int L2_PREFETCH, int WRITTEN_OUT, class Element,
          class Inside>
__device__ __forceinline__ void copy_parts(u32 tile, const Element* matrix, int first, u32 thread, Inside is_inside) {
    constexpr u32 PARTS = COLUMNS / WIDTH, COUNT = ROWS * PARTS, STEPS = ceil_div(COUNT, THREADS);
    constexpr int BYTES = sizeof(Element), IN_CHUNK = 16 / BYTES;
    constexpr bool ONE_COLUMN = THREADS % PARTS == 0;
    constexpr int ROWS_APART = THREADS / PARTS;
    const Element* from = matrix + first;
    const Element* own = from + thread / PARTS * STRIDE + thread % PARTS * WIDTH;
#pragma unroll (STEPS <= WRITTEN_OUT ? STEPS : WRITTEN_OUT / 2)
    for (int i = 0; i < STEPS; ++i) {
        const u32 part = thread + i * THREADS;
        const u32 row = ONE_COLUMN ? thread / PARTS + i * ROWS_APART : part / PARTS;
        const u32 column = (ONE_COLUMN ? thread : part) % PARTS * WIDTH;
        const bool inside = is_inside(row, column);
        const Element* source = ONE_COLUMN ? own + i * ROWS_APART * STRIDE : from + row * STRIDE + column;
        if (COUNT % THREADS == 0 || part < COUNT)
            copy_async<WIDTH * BYTES, L2_PREFETCH>(
                tile + TILE::chunk(TILE::slot(row), column / IN_CHUNK) + column % IN_CHUNK * BYTES, inside ? source : matrix, inside);
    }
}

// Copies rows from `first_row` on of a matrix of LIMIT rows of COLUMNS elements, with distance ROW, followed by zeros
// up to FILLED columns. If LIMIT is 0, the matrix has `limit` rows.
template <class TILE, int ROWS, int COLUMNS, int LIMIT, int WIDTH, int THREADS, int L2_PREFETCH, int WRITTEN_OUT = 8,
          int FILLED = COLUMNS, int ROW = COLUMNS, class Element>
__device__ __forceinline__ void copy_rows(u32 tile, const Element* matrix, int first_row, u32 thread, int limit = LIMIT) {
    copy_parts<TILE, ROWS, FILLED, ROW, WIDTH, THREADS, L2_PREFETCH, WRITTEN_OUT>(
        tile, matrix, first_row * ROW, thread, [=](u32 row, u32 column) {
            return ((LIMIT > 0 && LIMIT % ROWS == 0) || static_cast<int>(first_row + row) < limit) && (FILLED == COLUMNS || column < COLUMNS);
        });
}

// Copies columns from `first_column` on of a matrix with ROWS rows of LIMIT elements, both multiples of WIDTH.
template <class TILE, int ROWS, int COLUMNS, int LIMIT, int WIDTH, int THREADS, int L2_PREFETCH, int WRITTEN_OUT = 8,
          class Element>
__device__ __forceinline__ void copy_columns(u32 tile, const Element* matrix, int first_column, u32 thread) {
    copy_parts<TILE, ROWS, COLUMNS, LIMIT, WIDTH, THREADS, L2_PREFETCH, WRITTEN_OUT>(
        tile, matrix, first_column, thread,
        [=](u32, u32 column) { return LIMIT % COLUMNS == 0 || first_column + column < LIMIT; });
}
