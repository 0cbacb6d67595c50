"""Interrupts a job from another thread: kills the job's processes, and prevents new ones."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.system.device_lock import GaveUp


class Interruption:
    """Records whether a job was interrupted, and kills the job's processes. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kills: dict[object, Callable[[], None]] = {}
        self._interrupted = False

    def interrupt(self) -> None:
        """Kill the running processes, and prevent new ones until `forget` is called."""
        with self._lock:
            self._interrupted = True
            for kill in self._kills.values():
                kill()

    def forget(self) -> None:
        """Prepare for the next job: clear an earlier `interrupt`."""
        with self._lock:
            self._interrupted = False

    def check(self) -> None:
        """Raise `GaveUp` if the job was interrupted."""
        if self._interrupted:
            raise GaveUp("the measurement is no longer needed")

    @contextmanager
    def ends(self, kill: Callable[[], None]) -> Iterator[None]:
        """Call `kill` if the job is interrupted during the ``with`` block, or was interrupted before."""
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
