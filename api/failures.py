"""Loops over items of which one may fail: it ends neither the loop, nor does it fail for ever unseen."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import structlog

from db.session import StoreUnavailable

Item = TypeVar("Item")

MOST = 5
"""Failures in a row after which an item is given up."""

MOST_AWAY = 3
"""Items in a row that find the database away; the loop then ends, since each of them waited for it."""

log = structlog.get_logger("service")


class Failures:
    """Failures in a row, by key. Safe to share between threads: a count that is lost costs one more try.

    Args:
        what: the noun of an item, for the log.
        give_up: ends an item that failed `MOST` times in a row; is given its key and the reason.
    """

    def __init__(self, what: str, give_up: Callable[[int, str], object]) -> None:
        self._what = what
        self._give_up = give_up
        self._counts: Counter[int] = Counter()

    def each(self, items: Iterable[Item], work: Callable[[Item], Any], *, key: Callable[[Item], int]) -> None:
        """Do the work for each item.

        Raises:
            StoreUnavailable: the database is away for several items in a row, or for all.
        """
        away, reached = 0, False
        unavailable: StoreUnavailable | None = None
        for item in items:
            try:
                work(item)
            except StoreUnavailable as error:
                away, unavailable = away + 1, error
                if away == MOST_AWAY:
                    raise
                log.warning("an item waits for the database", what=self._what, key=key(item), reason=str(error))
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
        log.exception("an item failed, the others go on", what=self._what, key=key, failures=self._counts[key])
        if self._counts[key] < MOST:
            return
        del self._counts[key]
        try:
            self._give_up(key, f"{type(error).__name__}: {error}")
        except Exception:
            log.exception("an item cannot be given up", what=self._what, key=key)
