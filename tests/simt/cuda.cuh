// After ptx.cuh, for sources that declare their shared memory themselves: each array is filled with 0xff before a block.
#undef __shared__
#define __shared__ static __attribute__((section("simt_shared")))
