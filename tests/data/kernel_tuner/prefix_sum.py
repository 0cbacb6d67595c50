import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
N = 65536
x = rng.integers(-100, 101, N, np.int32)
SOURCE = "../kernels/prefix_sum/prefix_sum.cu"
tune = {"THREADS": [128, 256, 512], "ITEMS": [1, 2, 4], "N": [N]}
names = {"block_size_names": ["THREADS"], "grid_div_x": ["THREADS", "ITEMS"]}
out, totals = np.zeros(N, np.int32), np.zeros(N // 128, np.int32)
tune_kernel("scan_blocks", SOURCE, N, [x, totals, out], tune, **names)
tune_kernel("scan_totals", SOURCE, 1, [totals], {**tune, "block_size_x": [1024]}, grid_div_x=[])
tune_kernel("add_totals", SOURCE, N, [totals, out], tune, **names)
