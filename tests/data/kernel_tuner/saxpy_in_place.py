import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
N = 65536
x, y = rng.standard_normal((2, N), np.float32)
tune_kernel(
    "saxpy",
    "../kernels/saxpy_in_place/saxpy.cu",
    N,
    [np.float32(2.5), x, y],
    {"THREADS": [64, 128, 256, 512], "N": [N]},
    block_size_names=["THREADS"],
    grid_div_x=["THREADS"],
    answer=[None, None, 2.5 * x + y],
    atol=1e-5,
)
