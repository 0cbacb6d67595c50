import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
N = 65536
x = rng.standard_normal(N, np.float32)
tune_kernel(
    "own::scale<float, ITEMS>",
    "../kernels/template_scale/scale.cu",
    N,
    [x, np.zeros_like(x)],
    {"THREADS": [64, 128, 256], "ITEMS": [1, 2, 4], "N": [N]},
    lang="cupy",
    block_size_names=["THREADS"],
    grid_div_x=["THREADS", "ITEMS"],
    answer=[None, 2 * x],
)
