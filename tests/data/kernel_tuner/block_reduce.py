import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
ROWS, COLUMNS = 1024, 1000
x = rng.integers(-1000, 1000, (ROWS, COLUMNS), np.int32)
tune_kernel(
    "block_reduce",
    "../kernels/block_reduce/block_reduce.cu",
    ROWS,
    [x, np.zeros(ROWS, np.int32)],
    {
        "THREADS": [64, 128, 256],
        "ALGORITHM": ["BLOCK_REDUCE_RAKING", "BLOCK_REDUCE_WARP_REDUCTIONS"],
        "COLUMNS": [COLUMNS],
    },
    block_size_names=["THREADS"],
    grid_div_x=[],
    answer=[None, x.sum(axis=1, dtype=np.int32)],
)
