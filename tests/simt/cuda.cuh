// Included after ptx.cuh by sources that declare their shared memory themselves. Each array is filled with 0xff before a
// block starts.
#undef __shared__
#define __shared__ static __attribute__((section("simt_shared")))
