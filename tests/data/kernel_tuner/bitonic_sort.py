import numpy as np
from kernel_tuner import tune_kernel

rng = np.random.default_rng(1)
LOG = 10
keys = rng.integers(0, 2**LOG // 4, 2**LOG, np.int32)


def verify(answer, result, atol):
    order = result[1]
    return np.array_equal(np.sort(order), np.arange(2**LOG)) and np.array_equal(keys[order], np.sort(keys))


tune_kernel(
    "sort",
    "../kernels/bitonic_sort/sort.cu",
    1,
    [keys, np.zeros(2**LOG, np.int32)],
    {"THREADS": [32, 64, 128, 256, 512, 1024], "LOG": [LOG]},
    block_size_names=["THREADS"],
    grid_div_x=[],
    answer=[None, np.zeros(2**LOG, np.int32)],
    verify=verify,
)
