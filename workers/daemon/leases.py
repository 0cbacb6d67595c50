"""Leases of a worker, shared between its slots and its heartbeat."""

import threading
from collections.abc import Iterable

from evo.messages.job import Lease


class Held:
    """Held and revoked leases. Several threads may use one object.

    A lease is identified by its id and token, because a restored or new database may assign an id again.

    Attributes:
        drain: True if the service has told the worker that it grants no more jobs.
        closing: True if the worker requests no more jobs because it will end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[tuple[int, str], Lease] = {}
        self._revoked: set[tuple[int, str]] = set()
        self.drain = False
        self.closing = False

    def take(self, leases: Iterable[Lease]) -> None:
        with self._lock:
            self._leases.update({_key(lease): lease for lease in leases})

    def drop(self, lease: Lease) -> None:
        with self._lock:
            self._leases.pop(_key(lease), None)
            self._revoked.discard(_key(lease))

    def revoke(self, attempt_ids: Iterable[int]) -> set[int]:
        """Mark leases as revoked by the service. Return the ids of those that the worker holds."""
        with self._lock:
            revoked = set(attempt_ids)
            revoked_leases = [lease for lease in self._leases.values() if lease.attempt_id in revoked]
            self._revoked.update(_key(lease) for lease in revoked_leases)
            return {lease.attempt_id for lease in revoked_leases}

    def revoked(self, lease: Lease) -> bool:
        with self._lock:
            return _key(lease) in self._revoked

    @property
    def leases(self) -> list[Lease]:
        with self._lock:
            return list(self._leases.values())


def _key(lease: Lease) -> tuple[int, str]:
    return lease.attempt_id, lease.token
