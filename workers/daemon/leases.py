"""The leases a worker holds, shared between its slots and its heartbeat."""

import threading
from collections.abc import Iterable

from evo.messages.job import Lease


class Held:
    """Held and revoked leases, and whether to request more. Thread-safe.

    Attributes:
        drain: the service grants no more work.
        closing: the worker requests no more work because it is about to end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[int, Lease] = {}
        self._revoked: set[int] = set()
        self.drain = False
        self.closing = False

    def take(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._leases.update({lease.attempt_id: lease for lease in leases})

    def drop(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(lease.attempt_id, None)
            self._revoked.discard(lease.attempt_id)

    def revoke(self, attempt_ids: Iterable[int]) -> set[int]:
        """Mark leases that the service revoked and return those held here."""
        with self._lock:
            held = self._leases.keys() & set(attempt_ids)
            self._revoked |= held
            return held

    def revoked(self, lease: Lease) -> bool:
        with self._lock:
            return lease.attempt_id in self._revoked

    @property
    def leases(self) -> list[Lease]:
        with self._lock:
            return list(self._leases.values())
