"""Publish/subscribe within a service process, and between the service processes of one database."""

import threading
from collections.abc import Callable
from typing import TypeAlias

import structlog
from sqlalchemy.orm import Session

log = structlog.get_logger("database")

Topic: TypeAlias = str
Subscriber: TypeAlias = Callable[[Topic], None]

WORK: Topic = "work"
"""Topic: there may be work for waiting workers."""
SEARCHES: Topic = "searches"
"""Topic: a trial was proposed or ended, or the state of a search changed."""


def announce(session: Session, topic: Topic) -> None:
    """Notify all subscribers, in this process and in others, when this session's transaction commits."""
    session.info.setdefault("topics", set()).add(topic)


def announced(session: Session) -> list[Topic]:
    """Return the topics that a session will announce when it commits."""
    return sorted(session.info.get("topics", ()))


class Signals:
    """Calls subscribers when a topic is announced.

    A subscriber must return quickly. It may be called from any thread, and also when nothing has changed.
    """

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []
        self._lock = threading.Lock()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with the topic of every future notification.

        Return a function that ends the subscription.
        """
        with self._lock:
            self._subscribers.append(subscriber)
        return lambda: self._unsubscribe(subscriber)

    def notify(self, topic: Topic) -> None:
        with self._lock:
            subscribers = list(self._subscribers)
        for subscriber in subscribers:
            try:
                subscriber(topic)
            except Exception:  # the commit is complete, and the other subscribers must be called
                log.exception("a subscriber of database signals failed", topic=topic)

    def _unsubscribe(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers.remove(subscriber)
