"""Processes items one after another, and continues with the next item if one fails.

Each failure is logged. An item that fails repeatedly is ended.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import structlog

from db.engine.session import StoreUnavailable

Item = TypeVar("Item")

MOST = 5
"""Number of consecutive failures after which an item is ended."""

MOST_UNAVAILABLE = 3
"""Processing ends after the database was unavailable for this many items in a row, because each item waits for the
database until a time limit."""

log = structlog.get_logger("service")


class Failures:
    """Counts the consecutive failures of each item. Several threads may use one object.

    If two threads count at the same time, a failure may not be counted. The item then gets one more attempt.

    Args:
        what: noun for an item in log messages.
        give_up: function that ends an item that failed `MOST` times in a row. Its arguments are the key of the item and
            the reason.
    """

    def __init__(self, what: str, give_up: Callable[[int, str], object]) -> None:
        self._what = what
        self._give_up = give_up
        self._counts: Counter[int] = Counter()

    def each(self, items: Iterable[Item], work: Callable[[Item], Any], *, key: Callable[[Item], int]) -> None:
        """Call `work` for each item. If a call fails, continue with the next item.

        Raises:
            StoreUnavailable: the database was unavailable for `MOST_UNAVAILABLE` items in a row, or for all items.
        """
        away, reached = 0, False
        unavailable: StoreUnavailable | None = None
        for item in items:
            try:
                work(item)
            except StoreUnavailable as error:
                away, unavailable = away + 1, error
                if away == MOST_UNAVAILABLE:
                    raise
                log.warning(
                    "database unavailable; the item is retried", what=self._what, key=key(item), reason=str(error)
                )
            except Exception as error:  # noqa: BLE001 - counted and logged below
                away, reached = 0, True
                self._failed(key(item), error)
            else:
                away, reached = 0, True
                self._counts.pop(key(item), None)
        if unavailable is not None and not reached:
            raise unavailable

    def _failed(self, key: int, error: Exception) -> None:
        self._counts[key] += 1
        log.exception(
            "processing an item failed; the remaining items are processed",
            what=self._what,
            key=key,
            failures=self._counts[key],
        )
        if self._counts[key] < MOST:
            return
        del self._counts[key]
        try:
            self._give_up(key, f"{type(error).__name__}: {error}")
        except Exception:
            log.exception("an item failed repeatedly, and ending it failed as well", what=self._what, key=key)
