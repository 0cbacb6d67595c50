"""Changes the inputs in timed buffers between samples, while the addresses stay the same.

One set of input values is called a *content*. Contents are numbered, and drawn with different seeds.
"""

import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from workers.backends import Buffers

MOST_SHARE = 0.2
"""Fraction of the elapsed time that changing contents may take. The first `LEAST_CHANGES` changes are always made."""

LEAST_CHANGES = 3

HELD_BACK = -1
"""Value of `Contents.of` for a buffer set with inputs on which the candidate is not timed."""


class Contents:
    """Fills buffer sets with one of several numbered sets of input values (*contents*), and records the number.

    Args:
        sources: buffer sets from which the contents are copied, in the order of their numbers.
        rng: random generator that draws the number of the next content.
        held: number of the current content of each buffer set. Objects that fill the same sets share this mapping.
    """

    def __init__(
        self, sources: Sequence[Buffers], rng: np.random.Generator, held: "WeakKeyDictionary[Buffers, int]"
    ) -> None:
        self._sources, self._rng, self._held = sources, rng, held
        self._began_s = time.monotonic()
        self._spent_s, self._changes = 0.0, 0

    def of(self, buffers: Buffers) -> int:
        """Return the number of the inputs in a buffer set, or 0 if no number was recorded for the set."""
        return self._held.get(buffers, 0)

    def source(self, content: int) -> Buffers:
        """Return the buffer set from which inputs number `content` are copied. The caller may run kernels on it."""
        return self._sources[content]

    def note(self, buffers: Buffers, content: int) -> None:
        """Record that the caller has filled a buffer set with inputs number `content`."""
        self._held[buffers] = content

    def put(self, buffers: Buffers, content: int) -> None:
        """Copy inputs number `content` into a buffer set, unless they are already there."""
        if self.of(buffers) != content:
            buffers.refill(self._sources[content])
            self._held[buffers] = content

    def change(self, buffers: Buffers) -> None:
        """Fill a buffer set with different, randomly chosen inputs, if time permits. The outputs do not change."""
        now_s, others = time.monotonic(), len(self._sources) - 1
        dear = self._spent_s > MOST_SHARE * (now_s - self._began_s)
        if others < 1 or (dear and self._changes >= LEAST_CHANGES):
            return
        self.put(buffers, (self.of(buffers) + 1 + int(self._rng.integers(others))) % (others + 1))
        self._spent_s += time.monotonic() - now_s
        self._changes += 1

    def mix(self, sets: Sequence[Buffers]) -> None:
        """Fill buffer sets with randomly chosen inputs. Consecutive sets never have the same inputs.

        If there is only one content, nothing changes.
        """
        before, count = self.of(sets[-1]), len(self._sources)
        for buffers in sets if count > 1 else ():
            before = (before + 1 + int(self._rng.integers(count - 1))) % count
            self.put(buffers, before)
