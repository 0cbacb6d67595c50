"""Interruption of a job by another thread: kills its programs and refuses new ones."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.system.device_lock import GaveUp


class Interruption:
    """Interruption of the current job; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kills: dict[object, Callable[[], None]] = {}
        self._interrupted = False

    def interrupt(self) -> None:
        """Kill the running programs; refuse new ones until `forget`."""
        with self._lock:
            self._interrupted = True
            for kill in self._kills.values():
                kill()

    def forget(self) -> None:
        """Reset for another job."""
        with self._lock:
            self._interrupted = False

    def check(self) -> None:
        """Check for an interruption.

        Raises:
            GaveUp: the job was interrupted.
        """
        if self._interrupted:
            raise GaveUp("the measurement is no longer needed")

    @contextmanager
    def ends(self, kill: Callable[[], None]) -> Iterator[None]:
        """Call `kill` if an interruption comes during the block or has come before."""
        mine = object()
        with self._lock:
            self._kills[mine] = kill
            if self._interrupted:
                kill()
        try:
            yield
        finally:
            with self._lock:
                del self._kills[mine]
