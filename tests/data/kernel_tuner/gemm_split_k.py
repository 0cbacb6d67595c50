import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
M, N, K = 64, 256, 1024
a, b = rng.standard_normal((M, K), np.float32), rng.standard_normal((K, N), np.float32)
SOURCE = "../kernels/gemm_split_k/gemm.cu"
tune = {"TILE": [8, 16, 32], "SPLIT": [1, 2, 4, 8], "M": [M], "N": [N], "K": [K]}
parts = np.zeros((8, M, N), np.float32)
tune_kernel(
    "multiply",
    SOURCE,
    (N, M, "SPLIT"),
    [a, b, parts],
    {**tune, "block_size_y": [8, 16, 32]},
    restrictions=["TILE == block_size_y"],
    block_size_names=["TILE", "block_size_y"],
    grid_div_x=["TILE"],
    grid_div_y=["TILE"],
)
tune_kernel("add", SOURCE, M * N, [parts, np.zeros((M, N), np.float32)], {**tune, "block_size_x": [256]})
