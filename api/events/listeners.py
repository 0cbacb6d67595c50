"""Counts the open event streams of each caller in this process."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

MOST = 100
"""Open streams per token, its sessions included: enough for many tabs and scripts, far below the connection limit."""

AGAIN_S = 60


class Listeners:
    """Open streams by caller. For use from one event loop."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_more(self, key: str | None) -> Iterator[None]:
        """Count a stream while it is open. Key None, a caller on this machine without token, has no limit.

        Raises:
            HTTPException: 429, the caller has too many open streams.
        """
        if key is None:
            yield
            return
        if self._open[key] >= MOST:
            reason = f"{MOST} streams of events are open with this token: close some, or poll instead"
            raise HTTPException(429, reason, {"Retry-After": str(AGAIN_S)})
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
