// Replaces templates/sdpa_ladder/wmma.cuh. PTX does not specify the layout of a fragment, so it is unusual here: kernels
// that rely on a layout compute wrong results.

struct HalfFragment { u32 r[8]; };
struct FloatFragment { float r[8]; };

namespace simt {

// Lane and register that hold element `index` (16 * row + column) of a tile.
inline int holder(int index) { return index * 5 % 32; }
inline int register_of(int index) { return 7 - index / 32; }

template <class Act>
void each_element(Act act) {
    for (int row = 0; row < 16; ++row)
        for (int column = 0; column < 16; ++column) {
            const int index = row * 16 + column;
            act(row, column, holder(index), register_of(index));
        }
}

struct Access { u32 address; int stride; void* fragment; bool transposed; };

inline void check(const Access& access, int element_bytes) {
    if (access.stride * element_bytes % 32) fault("the stride is not a multiple of 32 bytes", access.stride);
}

inline void load_halves(HalfFragment& fragment, u32 address, int stride, bool transposed) {
    Access mine{address, stride, &fragment, transposed};
    warp(mine, [](Access** all) {
        each_element([&](int row, int column, int lane, int place) {
            const Access& access = *all[lane];
            check(access, 2);
            const int element = access.transposed ? column * access.stride + row : row * access.stride + column;
            at(access.address, 32, 32);
            order_of_accesses.read(current / 32 * 32 + lane, access.address + element * 2, 2);
            u16 bits;
            std::memcpy(&bits, at(access.address + element * 2, 2, 2), 2);
            static_cast<HalfFragment*>(access.fragment)->r[place] = bits;
        });
    });
}

template <bool STORE>
void move_floats(FloatFragment& fragment, u32 address, int stride) {
    Access mine{address, stride, &fragment, false};
    warp(mine, [](Access** all) {
        each_element([&](int row, int column, int lane, int place) {
            const Access& access = *all[lane];
            check(access, 4);
            at(access.address, 32, 32);
            const u32 address = access.address + (row * access.stride + column) * 4;
            void* const there = at(address, 4, 4);
            if (STORE)
                order_of_accesses.write(current / 32 * 32 + lane, address, 4);
            else
                order_of_accesses.read(current / 32 * 32 + lane, address, 4);
            float* const here = &static_cast<FloatFragment*>(access.fragment)->r[place];
            STORE ? std::memcpy(there, here, 4) : std::memcpy(here, there, 4);
        });
    });
}

}  // namespace simt

inline void wmma_load_a(HalfFragment& a, u32 address, int stride) { simt::load_halves(a, address, stride, false); }
inline void wmma_load_b(HalfFragment& b, u32 address, int stride) { simt::load_halves(b, address, stride, false); }
inline void wmma_load_b_transposed(HalfFragment& b, u32 address, int stride) {
    simt::load_halves(b, address, stride, true);
}
inline void wmma_load_c(FloatFragment& c, u32 address, int stride) { simt::move_floats<false>(c, address, stride); }
inline void wmma_store(u32 address, const FloatFragment& d, int stride) {
    simt::move_floats<true>(const_cast<FloatFragment&>(d), address, stride);
}

inline void wmma_multiply(FloatFragment& sum, const HalfFragment& a, const HalfFragment& b) {
    struct Mine { float* sum; const u32 *a, *b; } mine{sum.r, a.r, b.r};
    simt::warp(mine, [](Mine** all) {
        float left[16][16], right[16][16];
        simt::each_element([&](int row, int column, int lane, int place) {
            left[row][column] = simt::half_of(all[lane]->a[place], 0);
            right[row][column] = simt::half_of(all[lane]->b[place], 0);
        });
        simt::each_element([&](int row, int column, int lane, int place) {
            for (int k = 0; k < 16; ++k) all[lane]->sum[place] += left[row][k] * right[k][column];
        });
    });
}

inline void wmma_multiply_transposed(FloatFragment& sum, const HalfFragment& a, const HalfFragment& b) {
    wmma_multiply(sum, a, b);
}
