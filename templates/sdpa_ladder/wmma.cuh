// PTX for the operations of <mma.h>: tiles of 16 by 16, FP16 operands, FP32 sums. The header itself would double the
// compile time. The lane of an element is not specified, so a fragment is only loaded, multiplied and stored. Rows
// begin at multiples of 32 bytes. Strides, which PTX counts in elements, are also multiples of 32 bytes.

struct HalfFragment { u32 r[8]; };
struct FloatFragment { float r[8]; };

#define WMMA_HALVES(f)                                                                                                \
    "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3]), "=r"(f.r[4]), "=r"(f.r[5]), "=r"(f.r[6]), "=r"(f.r[7])

__device__ __forceinline__ void wmma_load_a(HalfFragment& a, u32 address, int stride) {
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 { %0,%1,%2,%3,%4,%5,%6,%7 }, [%8], %9;"
                 : WMMA_HALVES(a) : "r"(address), "r"(stride) : "memory");
}

__device__ __forceinline__ void wmma_load_b(HalfFragment& b, u32 address, int stride) {
    asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.shared.f16 { %0,%1,%2,%3,%4,%5,%6,%7 }, [%8], %9;"
                 : WMMA_HALVES(b) : "r"(address), "r"(stride) : "memory");
}

// Loads from the transposed matrix, whose columns have the distance `stride`.
__device__ __forceinline__ void wmma_load_b_transposed(HalfFragment& b, u32 address, int stride) {
    asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 { %0,%1,%2,%3,%4,%5,%6,%7 }, [%8], %9;"
                 : WMMA_HALVES(b) : "r"(address), "r"(stride) : "memory");
}

__device__ __forceinline__ void wmma_load_c(FloatFragment& c, u32 address, int stride) {
    asm volatile("wmma.load.c.sync.aligned.row.m16n16k16.shared.f32 { %0,%1,%2,%3,%4,%5,%6,%7 }, [%8], %9;"
                 : "=f"(c.r[0]), "=f"(c.r[1]), "=f"(c.r[2]), "=f"(c.r[3]),
                   "=f"(c.r[4]), "=f"(c.r[5]), "=f"(c.r[6]), "=f"(c.r[7])
                 : "r"(address), "r"(stride) : "memory");
}

__device__ __forceinline__ void wmma_store(u32 address, const FloatFragment& d, int stride) {
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [%0], { %1,%2,%3,%4,%5,%6,%7,%8 }, %9;"
                 :: "r"(address), "f"(d.r[0]), "f"(d.r[1]), "f"(d.r[2]), "f"(d.r[3]),
                    "f"(d.r[4]), "f"(d.r[5]), "f"(d.r[6]), "f"(d.r[7]), "r"(stride) : "memory");
}

#define WMMA_MULTIPLY(B_LAYOUT)                                                                                       \
    asm("wmma.mma.sync.aligned.row." B_LAYOUT ".m16n16k16.f32.f32 "                                                   \
        "{ %0,%1,%2,%3,%4,%5,%6,%7 }, { %8,%9,%10,%11,%12,%13,%14,%15 }, "                                            \
        "{ %16,%17,%18,%19,%20,%21,%22,%23 }, { %0,%1,%2,%3,%4,%5,%6,%7 };"                                           \
        : "+f"(sum.r[0]), "+f"(sum.r[1]), "+f"(sum.r[2]), "+f"(sum.r[3]),                                             \
          "+f"(sum.r[4]), "+f"(sum.r[5]), "+f"(sum.r[6]), "+f"(sum.r[7])                                              \
        : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(a.r[4]), "r"(a.r[5]), "r"(a.r[6]), "r"(a.r[7]),     \
          "r"(b.r[0]), "r"(b.r[1]), "r"(b.r[2]), "r"(b.r[3]), "r"(b.r[4]), "r"(b.r[5]), "r"(b.r[6]), "r"(b.r[7]))

// sum += a * b
__device__ __forceinline__ void wmma_multiply(FloatFragment& sum, const HalfFragment& a, const HalfFragment& b) {
    WMMA_MULTIPLY("row");
}

__device__ __forceinline__ void wmma_multiply_transposed(
    FloatFragment& sum, const HalfFragment& a, const HalfFragment& b) {
    WMMA_MULTIPLY("col");
}
