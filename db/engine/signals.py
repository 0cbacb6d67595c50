"""News between the parts of a service, and between the service processes of one database."""

import threading
from collections.abc import Callable
from typing import TypeAlias

import structlog
from sqlalchemy.orm import Session

log = structlog.get_logger("database")

Topic: TypeAlias = str
Hearer: TypeAlias = Callable[[Topic], None]

WORK: Topic = "work"
"""There may be something to do for a worker that waits."""
SEARCHES: Topic = "searches"
"""A trial was asked or ended, or a search changed its state."""


def announce(session: Session, topic: Topic) -> None:
    """Tell every hearer, in this process and in others, as soon as this session's transaction is committed."""
    session.info.setdefault("topics", set()).add(topic)


def announced(session: Session) -> list[Topic]:
    """What a session is about to tell."""
    return sorted(session.info.get("topics", ()))


class Signals:
    """Who wants to hear. Hearers are called from any thread, return at once, and may be told too often."""

    def __init__(self) -> None:
        self._hearers: list[Hearer] = []
        self._lock = threading.Lock()

    def subscribe(self, hearer: Hearer) -> Callable[[], None]:
        """Hear every topic from now on; returns what ends that."""
        with self._lock:
            self._hearers.append(hearer)
        return lambda: self._leave(hearer)

    def tell(self, topic: Topic) -> None:
        with self._lock:
            hearers = list(self._hearers)
        for hearer in hearers:
            try:
                hearer(topic)
            except Exception:  # what was committed is; the other hearers are still to be told
                log.exception("a hearer failed", topic=topic)

    def _leave(self, hearer: Hearer) -> None:
        with self._lock:
            self._hearers.remove(hearer)
