"""What the inputs of timed buffers hold: it changes between samples, at the same addresses, with answers of its own."""

import time
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from workers.devices import Buffers

MOST_SHARE = 0.2
"""Of the time that passes, what changing contents may take; the first changes are made whatever they take."""

LEAST_CHANGES = 3

HELD_BACK = -1
"""Stands for a content that is none of those in turn."""


class Contents:
    """Which of several contents each set of buffers holds.

    Args:
        sources: one set for each content, in the order of their answers.
        rng: draws which comes next.
        held: what sets hold, shared by all that fill them.
    """

    def __init__(
        self, sources: Sequence[Buffers], rng: np.random.Generator, held: "WeakKeyDictionary[Buffers, int]"
    ) -> None:
        self._sources, self._rng, self._held = sources, rng, held
        self._began_s = time.monotonic()
        self._spent_s, self._changes = 0.0, 0

    def of(self, buffers: Buffers) -> int:
        """The number of the content that a set holds; until it is changed, the first."""
        return self._held.get(buffers, 0)

    def note(self, buffers: Buffers, content: int) -> None:
        """Say what a set holds that something else filled."""
        self._held[buffers] = content

    def put(self, buffers: Buffers, content: int) -> None:
        """Fill a set with a content, unless it holds it."""
        if self.of(buffers) != content:
            buffers.refill(self._sources[content])
            self._held[buffers] = content

    def change(self, buffers: Buffers) -> None:
        """Fill a set with another content. Outputs keep the answers to the one before."""
        now_s, others = time.monotonic(), len(self._sources) - 1
        dear = self._spent_s > MOST_SHARE * (now_s - self._began_s)
        if others < 1 or (dear and self._changes >= LEAST_CHANGES):
            return
        self.put(buffers, (self.of(buffers) + 1 + int(self._rng.integers(others))) % (others + 1))
        self._spent_s += time.monotonic() - now_s
        self._changes += 1

    def mix(self, sets: Sequence[Buffers]) -> None:
        """Fill sets so that no call in turn meets the content of the call before; which one it meets is drawn."""
        before, count = self.of(sets[-1]), len(self._sources)
        for buffers in sets if count > 1 else ():
            before = (before + 1 + int(self._rng.integers(count - 1))) % count
            self.put(buffers, before)
