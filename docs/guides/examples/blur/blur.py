import numpy as np


def blur(image):
    weights = np.outer([1, 2, 1], [1, 2, 1]) / 16
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 1, mode="edge"), (3, 3))
    return (windows * weights).sum(axis=(2, 3))
