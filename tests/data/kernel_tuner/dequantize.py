import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
ROWS, COLUMNS = 512, 1024
codes = rng.integers(0, 0x7F, (ROWS, COLUMNS), np.uint8)
exponent, fraction = codes >> 3, codes & 7
numbers = np.where(exponent, (8 + fraction) * 2.0 ** (exponent - 10.0), fraction * 2.0**-9)
scales = rng.uniform(0.5, 2, ROWS).astype(np.float32)
tune_kernel(
    "dequantize",
    "../kernels/dequantize/dequantize.cu",
    (COLUMNS, ROWS),
    [codes, scales, np.zeros((ROWS, COLUMNS), np.float32)],
    {"THREADS": [128, 256, 512], "ITEMS": [1, 4, 8], "COLUMNS": [COLUMNS]},
    block_size_names=["THREADS"],
    grid_div_x=["THREADS", "ITEMS"],
    answer=[None, None, (numbers * scales[:, None]).astype(np.float32)],
    atol=1e-4,
)
