"""Sorting of keys with many ties, for which several orders are correct."""

import numpy as np


def inputs(problem, distribution, rng):
    count = 2 ** problem["LOG"]
    keys = rng.integers(0, max(2, count // 4), count, np.int32)
    return {"keys": np.sort(keys)[::-1].copy() if distribution == "descending" else keys}


def verify(problem, inputs, outputs):
    keys, order = inputs["keys"], outputs["order"]
    if not np.array_equal(np.sort(order), np.arange(keys.size)):
        return "the indices are no permutation"
    placed = keys[order]
    if not (placed[1:] >= placed[:-1]).all():
        return f"keys descend at {int(np.argmax(placed[1:] < placed[:-1]))}"
    return None
