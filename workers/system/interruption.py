"""Interruption of a job by another thread: its programs are killed, and it starts no more."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workers.system.device_lock import GaveUp


class Interruption:
    """Interruption of the present job; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kills: dict[object, Callable[[], None]] = {}
        self._came = False

    def come(self) -> None:
        """Kill what runs; refuse new programs until `forget`."""
        with self._lock:
            self._came = True
            for kill in self._kills.values():
                kill()

    def forget(self) -> None:
        """Note that another job begins."""
        with self._lock:
            self._came = False

    def check(self) -> None:
        """Raises:
        GaveUp: the job was interrupted.
        """
        if self._came:
            raise GaveUp("the measurement is not wanted any more")

    @contextmanager
    def ends(self, kill: Callable[[], None]) -> Iterator[None]:
        """Call `kill` if an interruption comes during the block or came before."""
        mine = object()
        with self._lock:
            self._kills[mine] = kill
            if self._came:
                kill()
        try:
            yield
        finally:
            with self._lock:
                del self._kills[mine]
