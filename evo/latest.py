"""Values of the keys that were used last; the others are forgotten."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Latest(Generic[K, V]):
    """At most so many values, for processes that run for months. Not safe to share between threads.

    Args:
        most: values kept.
        dropped: is told of each value that is forgotten.
    """

    def __init__(self, most: int, dropped: Callable[[V], object] = lambda _: None) -> None:
        self._most = most
        self._dropped = dropped
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key, made now if it is not there."""
        if key in self._values:
            self._values.move_to_end(key)
            return self._values[key]
        value = self._values[key] = make()
        while len(self._values) > self._most:
            self._dropped(self._values.popitem(last=False)[1])
        return value
