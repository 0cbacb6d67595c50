"""Ranges of lengths: ``1..4096`` stands for some lengths between its ends."""

import re

from evo.errors import InvalidInput

POINTS = 7
"""Largest number of lengths that stand for a range."""

_RANGE = re.compile(r"([0-9]{1,18})\.\.([0-9]{1,18})")


def lengths_of(text: str, where: str) -> list[int] | None:
    """Return the lengths that a range stands for, in ascending order; None if the text is no range.

    Lengths are evenly spaced on a logarithmic scale, since kernels differ by factors of a length, and the ends are
    among them.

    Raises:
        InvalidInput: the range is written wrongly, is empty, or begins below 1.
    """
    if ".." not in text:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(where, f"`{text.strip():.60}` is no range of lengths: write e.g. 1..4096")
    low, high = int(found[1]), int(found[2])
    if not 1 <= low <= high:
        raise InvalidInput(where, f"`{text.strip()}` holds no length: write the smaller one first, e.g. 1..4096")
    steps = POINTS - 1
    return sorted({min(high, max(low, round(low * (high / low) ** (step / steps)))) for step in range(POINTS)})
