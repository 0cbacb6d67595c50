"""Decides when a device must be quarantined. A quarantined device gets no jobs until a person clears it.

Crashes of candidates do not count, because a search for a difficult kernel causes dozens of them. A device is
quarantined if a known-good kernel fails after `MOST_CANDIDATES` different candidates, or `MOST_TESTS` times in a row.
"""

MOST_CANDIDATES = 3
MOST_TESTS = 3


class Health:
    """Counts the failures of the known-good kernel on one device."""

    def __init__(self) -> None:
        self._candidates: dict[str, str] = {}
        self._in_a_row = 0

    def failed(self, candidate: str, reason: str) -> None:
        """Record that the known-good kernel failed before or after `candidate`."""
        self._candidates.pop(candidate, None)
        self._candidates[candidate] = reason
        self._in_a_row += 1

    def passed(self) -> None:
        """Record that the known-good kernel succeeded. The count of candidates is not reset."""
        self._in_a_row = 0

    def forget(self) -> None:
        """Reset all counts while the device is quarantined, so that it starts without failures once it is cleared."""
        self._candidates.clear()
        self._in_a_row = 0

    @property
    def verdict(self) -> str | None:
        """Reason why the device must be quarantined, or None if it need not be."""
        last = next(reversed(self._candidates.values()), "")
        if len(self._candidates) >= MOST_CANDIDATES:
            return (
                f"a known-good kernel failed after {len(self._candidates)} different candidates; last failure: {last}"
            )
        if self._in_a_row >= MOST_TESTS:
            return f"a known-good kernel failed {self._in_a_row} times in a row; last failure: {last}"
        return None
