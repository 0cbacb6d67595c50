import math

import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
ROWS, COLUMNS = 512, 768
x, bias = rng.standard_normal((ROWS, COLUMNS), np.float32), rng.standard_normal(COLUMNS, np.float32)
value = x.astype(np.float64) + bias
gelu = 0.5 * value * (1 + np.vectorize(math.erf)(value / math.sqrt(2)))
tune_kernel(
    "bias_gelu",
    "../kernels/bias_gelu/bias_gelu.cu",
    ROWS,
    [x, bias, np.zeros_like(x)],
    {"THREADS": [128, 256, 512], "COLUMNS": [COLUMNS]},
    block_size_names=["THREADS"],
    grid_div_x=[],
    answer=[None, None, gelu.astype(np.float32)],
    atol=1e-5,
)
