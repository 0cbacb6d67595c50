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
"""Offset of extreme scores. Their exp overflows, or underflows to zero, in float32."""

FAR = 10.0
"""Component of q that causes the extreme scores."""

LONGEST_RUN = 40
"""Maximum number of consecutive rows of q with the same kind of scores: more rows than in a vector or fragment, but
fewer than in most blocks.
"""


def draw_heads(
    rng: np.random.Generator,
    shapes: Mapping[str, tuple[int, ...]],
    distribution: str,
    *,
    least_deviation: float = 0.0,
) -> Drawn:
    """Draw q, k and v with the given `shapes`. The keys are along the second-last dimension.

    Args:
        distribution: name of the distribution:
            ``normal``: N(0, 1).
            ``offset``: normal numbers with a mean other than 0. In a correct kernel, the mean of k cancels in the
                softmax, and the mean of v remains in the result.
            ``peaked``: a late key has a high score for nearly all queries (an attention sink), so kernels must raise
                their running maximum. For some rows of q, this score is `EXTREME`, so the maximum must be exact. For
                some other rows, all scores are `EXTREME` below zero, so the running maximum must not start at zero.
            ``large``: scores with a standard deviation of 16, so that only a few keys contribute.
            ``small``: scores near zero, so that all keys have nearly equal weights.
        least_deviation: minimum standard deviation of the drawn numbers.
    """
    deviation = np.float32(max({"large": LARGE, "small": SMALL}.get(distribution, 1.0), least_deviation))
    drawn = {name: normals(rng, shape) * deviation for name, shape in shapes.items()}
    if distribution == "offset":
        drawn = {name: array + np.float32(MEANS[name]) for name, array in drawn.items()}
    if distribution == "peaked":
        _peak(rng, drawn["q"], drawn["k"])
    return drawn


def _peak(rng: np.random.Generator, q: NDArray[np.float32], k: NDArray[np.float32]) -> None:
    """Change q and k in place, for the distribution ``peaked`` of `draw_heads`.

    In each head, a key in the second half is made the late key. Its score is extreme for rows of q whose last component
    is not 0. For rows whose second-last component is not 0, the scores of all keys are extremely low.
    """
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
        else:  # the score is one product, so it is exact even if sums have few bits
            run[:] = 0.0
            run[:, -2] = FAR
        if (begin := begin + len(run)) == len(rows):
            return
