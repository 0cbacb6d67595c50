"""Messages that are being delivered, and how many may be at once: slow receivers do not delay others."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from db.repositories.deliveries import Due

AT_ONCE = 32
"""Messages delivered at once."""

RETRIES_AT_ONCE = 8
"""Of them, at most this many failed before, so that receivers that never answer leave room for new messages."""

PER_RECEIVER = 2
"""Of them, at most this many go to one receiver."""


class UnderWay:
    """The deliveries of this process that have not ended, each in a separate thread."""

    def __init__(self) -> None:
        self._ended = threading.Condition()
        self._messages: dict[int, Due] = {}
        self.ended_count = 0
        """Deliveries that ended since the start."""

    def fitting(self, due: Iterable[Due]) -> list[Due]:
        """Return the messages that may be delivered now, in their order."""
        with self._ended:
            held = list(self._messages.values())
        known = {each.id for each in held}
        receivers = Counter(receiver_of(each.url) for each in held)
        retries = sum(each.retried for each in held)
        chosen: list[Due] = []
        for each in due:
            if len(held) + len(chosen) >= AT_ONCE:
                break
            receiver = receiver_of(each.url)
            full = receivers[receiver] >= PER_RECEIVER or (each.retried and retries >= RETRIES_AT_ONCE)
            if full or each.id in known:
                continue
            chosen.append(each)
            receivers[receiver] += 1
            retries += each.retried
        return chosen

    def start(self, message: Due, deliver: Callable[[], None]) -> None:
        """Deliver a message in a thread, which does not keep the process from ending."""

        def run() -> None:
            try:
                deliver()
            finally:
                with self._ended:
                    del self._messages[message.id]
                    self.ended_count += 1
                    self._ended.notify_all()

        with self._ended:
            self._messages[message.id] = message
        threading.Thread(target=run, name=f"webhook-{message.id}", daemon=True).start()

    def wait(self, *, ended_count: int, until_s: float) -> bool:
        """Wait until more deliveries than `ended_count` have ended. Return False if none will.

        Args:
            until_s: time on the monotonic clock at which waiting ends, with False.
        """
        with self._ended:
            rest_s = max(0.0, until_s - time.monotonic())
            self._ended.wait_for(lambda: self.ended_count > ended_count or not self._messages, rest_s)
            return self.ended_count > ended_count and time.monotonic() < until_s


def receiver_of(url: str) -> str:
    """Return the host and port of a URL; the URL itself if it cannot be read."""
    try:
        return urlsplit(url).netloc.lower() or url
    except ValueError:
        return url
