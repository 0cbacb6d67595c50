"""How many streams of events one caller holds open in this process."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

MOST = 100
"""Of one token, its sessions included: many a tab and script, and far from what a process has connections."""

AGAIN_S = 60


class Listeners:
    """To be used from one event loop."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    @contextmanager
    def one_more(self, key: str | None) -> Iterator[None]:
        """Counts a stream of this caller as long as it is open; None: nobody in particular, on this machine.

        Raises:
            HTTPException: 429, the caller has as many as one may.
        """
        if key is None:
            yield
            return
        if self._open[key] >= MOST:
            reason = f"{MOST} streams of events are open with this token: close some, or ask from time to time instead"
            raise HTTPException(429, reason, {"Retry-After": str(AGAIN_S)})
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
