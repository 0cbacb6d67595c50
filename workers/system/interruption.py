"""Interrupts a job from another thread, by killing the job's programs and refusing to start new programs."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.system.device_lock import GaveUp


class Interruption:
    """Interruption of the current job. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kills: dict[object, Callable[[], None]] = {}
        self._interrupted = False

    def interrupt(self) -> None:
        """Kill the running programs, and refuse new ones until `forget` is called."""
        with self._lock:
            self._interrupted = True
            for kill in self._kills.values():
                kill()

    def forget(self) -> None:
        """Reset the interruption for another job."""
        with self._lock:
            self._interrupted = False

    def check(self) -> None:
        """Raise an error if the job was interrupted.

        Raises:
            GaveUp: the job was interrupted.
        """
        if self._interrupted:
            raise GaveUp("the measurement is no longer needed")

    @contextmanager
    def ends(self, kill: Callable[[], None]) -> Iterator[None]:
        """Call `kill` if the job is interrupted during the block or was interrupted before."""
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
