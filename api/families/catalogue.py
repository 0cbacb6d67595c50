"""Cache of families and their spaces. Families are built from their documents, without running their code."""

import threading
from collections.abc import Mapping
from typing import Any

from db.models import FamilyRow, SearchRow
from evo.device.estimate.target import aimed_at
from evo.family import Family
from evo.lru_cache import LruCache
from evo.promotion.goal import Goal
from evo.space import Space

KEPT_FAMILIES = 256
KEPT_SPACES = 8
"""Number of spaces kept in memory. Enumerating the valid configs of a large space takes a second."""


class Catalogue:
    """Cache of families and spaces. Thread-safe."""

    def __init__(self) -> None:
        self._families: LruCache[str, Family] = LruCache(KEPT_FAMILIES)
        self._spaces: dict[tuple[str, ...], Space] = {}
        self._lock = threading.Lock()

    def family(self, row: FamilyRow) -> Family:
        with self._lock:
            return self._families.get(row.digest, lambda: parsed(row.document))

    def space(self, search: SearchRow) -> Space:
        """Return the space of a search. The row of the search need not be in the database yet.

        Raises:
            EmptySpace: no config is valid.
        """
        family = self.family(search.family)
        key = (search.family.digest, search.problem_key, repr(search.device), search.objective.key)
        with self._lock:
            if (space := self._spaces.get(key)) is None:
                device = aimed_at(search.device, search.objective)
                space = family.space(search.problem, device, search.objective)
                while len(self._spaces) >= KEPT_SPACES:
                    del self._spaces[next(iter(self._spaces))]
                self._spaces[key] = space
            return space


def goal_of(search: SearchRow) -> Goal | None:
    """Return the metric that a search optimises, or None if the search minimises the time. The row need not be in the
    database yet.

    Raises:
        InvalidInput: the metric is not a valid expression.
    """
    flops, moved = _work(search, search.objective.metric)
    return Goal.of(search.objective, search.problem, flops=flops, moved=moved)


def second_goal_of(search: SearchRow) -> Goal | None:
    """Return the second objective of a search, or None if the search has one objective. The row need not be in the
    database yet.

    Raises:
        InvalidInput: the second objective is not a valid expression, or equals the first objective.
    """
    flops, moved = _work(search, search.objective.second_metric)
    return Goal.second(search.objective, search.problem, flops=flops, moved=moved)


def _work(search: SearchRow, metric: str | None) -> tuple[float | None, float | None]:
    """Return the operations and bytes of one call, if there is a metric that may use them; else (None, None)."""
    work = None if metric is None else parsed(search.family.document).work(search.problem)
    return (None, None) if work is None else (work.flops, work.bytes)


def parsed(document: Mapping[str, Any]) -> Family:
    """Return the family that a document describes.

    Raises:
        InvalidInput: a field of the document is invalid.
    """
    return Family.from_document(dict(document), where="document")
