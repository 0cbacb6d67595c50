import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
M = N = K = 256
a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
tune_kernel(
    "sgemm",
    "../kernels/sgemm/sgemm.cu",
    (N, M),
    [a, b, np.zeros((M, N), np.float32)],
    {"TILE": [16, 32], "ROWS": [1, 2, 4, 8], "block_size_y": [2, 4, 8, 16, 32], "M": [M], "N": [N], "K": [K]},
    restrictions=["TILE == ROWS * block_size_y"],
    block_size_names=["TILE", "block_size_y"],
    grid_div_x=["TILE"],
    grid_div_y=["TILE"],
    answer=[None, None, a @ b],
    atol=1e-6 * K,
)
