"""Random queries, keys and values for the ``reference.py`` of attention families."""

from collections.abc import Mapping
from itertools import cycle, islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evo.reference.pieces import normals

Drawn: TypeAlias = dict[str, NDArray[np.float32]]

MEANS = {"q": 0.5, "k": -2.0, "v": 3.0}
LARGE = 4.0
SMALL = 1e-3
EXTREME = 100.0
"""Offset of extreme scores: exp of it overflows, or underflows to zero, in float32."""

FAR = 10.0
"""The component of q that makes it so."""

LONGEST_RUN = 40
"""Rows of q that are alike: up to more than a vector or a fragment holds, but few blocks are as long."""


def draw_heads(
    rng: np.random.Generator,
    shapes: Mapping[str, tuple[int, ...]],
    distribution: str,
    *,
    least_deviation: float = 0.0,
) -> Drawn:
    """q, k and v, with as many dimensions as the `shapes` by their names have; keys are the last but one.

    Args:
        distribution: ``normal``: N(0, 1). ``offset``: with a mean, which softmax must not feel in k and must keep in v.
            ``peaked``: a late key that nearly all queries fall for (an attention sink), so the running maximum must
            rise; some rows of q fall for it by `EXTREME`, so that it must be the true one, and to some every key scores
            as far below zero, so that it must not begin there. ``large``: scores with a standard deviation of 16, so
            that few keys count. ``small``: nearly equal weights.
        least_deviation: of what is drawn, however small.
    """
    deviation = np.float32(max({"large": LARGE, "small": SMALL}.get(distribution, 1.0), least_deviation))
    drawn = {name: normals(rng, shape) * deviation for name, shape in shapes.items()}
    if distribution == "offset":
        drawn = {name: array + np.float32(MEANS[name]) for name, array in drawn.items()}
    if distribution == "peaked":
        _peak(rng, drawn["q"], drawn["k"])
    return drawn


def _peak(rng: np.random.Generator, q: NDArray[np.float32], k: NDArray[np.float32]) -> None:
    """In place; by its last component q falls for its head's late key, by the one before it buries all keys."""
    far = k.shape[-1] ** 0.5 * EXTREME / FAR
    heads = k.reshape(-1, *k.shape[-2:])
    late = rng.integers(heads.shape[1] // 2, heads.shape[1], len(heads))
    heads[range(len(heads)), late] += 4.0
    heads[range(len(heads)), late, -1] = far
    heads[..., -2] = -far
    rows = q.reshape(-1, q.shape[-1])
    longest = min(LONGEST_RUN, 1 + len(rows) // 8)
    begin, kinds = 0, cycle(("falls", "buried", "towers"))
    for kind in islice(kinds, int(rng.integers(3)), None):
        run = rows[begin : begin + int(rng.integers(1, longest + 1))]
        run[:, -2:] = 0.0
        if kind == "falls":
            run[:, :-2] += 1.0
        elif kind == "towers":
            run[:, -1] = FAR
        else:  # by one product alone, which is exact wherever sums have few bits
            run[:] = 0.0
            run[:, -2] = FAR
        if (begin := begin + len(run)) == len(rows):
            return
