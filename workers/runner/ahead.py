"""A runner that is started ahead: it imports modules or computes references before it is needed."""

import threading

from evo.errors import EvoError
from workers.runner.child import Child
from workers.runner.protocol import Load, Prepare, Ready
from workers.system.interruption import Interruption


class Ahead:
    """A runner that is started ahead. It opens no device before it is taken.

    Args:
        request: what it does in advance.
        limit_s: seconds it may take.
    """

    def __init__(
        self,
        child: Child,
        request: Load | Prepare,
        *,
        limit_s: float,
        interruption: Interruption,
    ) -> None:
        self._child = child
        self.request = request
        self._limit_s = limit_s
        self._interruption = interruption
        self._ready = False
        self._thread = threading.Thread(target=self._prepare, name="runner ahead", daemon=True)
        self._thread.start()

    def taken(self) -> Child | None:
        """Return the runner once it is prepared; None if it failed; it is then ended."""
        self.wait()
        if self._ready and self._child.usable:
            return self._child
        self._child.kill()
        return None

    def wait(self) -> None:
        """Return once it is prepared or has failed."""
        self._thread.join()

    def discard(self) -> None:
        """End the runner."""
        self._child.interrupt()
        self._thread.join()
        self._child.kill()

    def _prepare(self) -> None:
        with self._interruption.ends(self._child.interrupt):
            try:
                self._ready = isinstance(self._child.ask(self.request, self._limit_s), Ready)
            except EvoError:  # the runner that is opened instead reports the reason
                self._ready = False
