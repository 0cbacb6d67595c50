"""Registers the families that come with kernel-evo, so that a new service can search them by name."""

import threading
from collections.abc import Callable
from datetime import datetime

import structlog

from db.engine.session import Database, StoreUnavailable
from db.repositories.archive import Archive, Registration
from templates import registry

log = structlog.get_logger("families")


class BuiltinFamilies:
    """Registers built-in families when a request first needs them, and again after their files change.

    Reading the families takes a second, so it is not done when the service starts. Several threads may use one object.
    """

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._registered: frozenset[str] = frozenset()

    def ensure(self, name: str | None = None) -> None:
        """Register the built-in families that are not in the database.

        Args:
            name: family name from a request. If it names a built-in recording, the recording is registered too.
                Registering all recordings in advance would take seconds.

        Raises:
            StoreUnavailable: the database accepts no writes.
        """
        packages = registry.builtin()
        if name in registry.recordings():
            packages = [*packages, registry.find(name)]
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
            self._registered |= digests

    def try_to_ensure(self, name: str | None = None) -> None:
        """Call `ensure` before a read. If the database accepts no writes, log that and continue."""
        try:
            self.ensure(name)
        except StoreUnavailable as error:
            log.warning("built-in families not registered", reason=str(error))
