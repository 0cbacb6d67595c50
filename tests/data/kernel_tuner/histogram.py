import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
N = 100000
data = rng.integers(0, 256, N, np.uint8)
tune_kernel(
    "histogram",
    "../kernels/histogram/histogram.cu",
    N,
    [data, np.zeros(256, np.int32)],
    {"THREADS": [128, 256, 512], "ITEMS": [4, 16, 64], "N": [N]},
    block_size_names=["THREADS"],
    grid_div_x=["THREADS", "ITEMS"],
    answer=[None, np.bincount(data, minlength=256).astype(np.int32)],
)
