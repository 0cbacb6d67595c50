"""Registers the families that come with kernel-evo, so that they can be searched by name on a fresh service."""

import threading
from collections.abc import Callable
from datetime import datetime

import structlog

from db.engine.session import Database, StoreUnavailable
from db.repositories.archive import Archive, Registration
from templates import registry

log = structlog.get_logger("families")


def own_digests() -> dict[str, str]:
    """Digests of the families that come with kernel-evo, by name: in this service's version."""
    return {package.family.name: package.digest for package in registry.builtin()}


class BuiltinFamilies:
    """Registers what is missing, on the first request that needs it and after a file of a family has changed.

    Reading the families takes a second, which a service should not spend before it listens. Safe to share between
    threads.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._registered: frozenset[str] = frozenset()

    def ensure(self) -> None:
        """Register those that are not.

        Raises:
            StoreUnavailable: the database takes no writes.
        """
        packages = registry.builtin()
        digests = frozenset(package.digest for package in packages)
        with self._lock:
            if digests <= self._registered:
                return
            with self._database.write() as session:
                Archive(session).register_missing(
                    [
                        Registration(digest=each.digest, name=each.family.name, document=dict(each.family.document))
                        for each in packages
                    ],
                    now=self._clock(),
                )
            self._registered = digests

    def try_to_ensure(self) -> None:
        """The same for readers, who get what is registered already if the database takes no writes."""
        try:
            self.ensure()
        except StoreUnavailable as error:
            log.warning("built-in families not registered", reason=str(error))
