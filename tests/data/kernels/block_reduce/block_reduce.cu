#include <cub/block/block_reduce.cuh>

extern "C" __global__ void __launch_bounds__(THREADS) block_reduce(const int *x, int *sums) {
    using Reduce = cub::BlockReduce<int, THREADS, cub::ALGORITHM>;
    __shared__ typename Reduce::TempStorage storage;
    int own = 0;
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS) own += x[blockIdx.x * COLUMNS + i];
    const int sum = Reduce(storage).Sum(own);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}
