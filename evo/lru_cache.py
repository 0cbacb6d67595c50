"""A bounded cache that evicts the least recently used value."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Bounded cache that evicts the least recently used value. Not thread-safe.

    Args:
        most: maximum number of values.
        dropped: function that is called with each evicted value.
    """

    def __init__(self, most: int, dropped: Callable[[V], object] = lambda _: None) -> None:
        self._most = most
        self._dropped = dropped
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the cached value of `key`; if there is none, call `make` and cache its result."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = self._values[key] = make()
        while len(self._values) > self._most:
            self._dropped(self._values.popitem(last=False)[1])
        return value
