// The interface of CUB's block reduction on the host: https://nvidia.github.io/cccl/cub/api/classcub_1_1BlockReduce.html
#pragma once

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };

template <class T, int BLOCK_DIM_X, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS>
struct BlockReduce {
    struct TempStorage { T given[BLOCK_DIM_X]; };
    TempStorage& storage;

    explicit BlockReduce(TempStorage& shared) : storage(shared) {}

    // Only thread 0 gets a valid result.
    T Sum(T own) {
        storage.given[threadIdx.x] = own;
        __syncthreads();
        T sum = storage.given[BLOCK_DIM_X - 1];
        if (threadIdx.x == 0)
            for (int i = 0; i < BLOCK_DIM_X - 1; ++i) sum += storage.given[i];
        return sum;
    }
};

}  // namespace cub
