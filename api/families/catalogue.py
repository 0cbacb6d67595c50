"""Catalogue of families, built from their documents without running their code."""

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
"""Spaces kept in memory: enumerating the valid configs of a large one takes a second."""


class Catalogue:
    """Cache of families and spaces. Safe to share between threads."""

    def __init__(self) -> None:
        self._families: LruCache[str, Family] = LruCache(KEPT_FAMILIES)
        self._spaces: dict[tuple[str, ...], Space] = {}
        self._lock = threading.Lock()

    def family(self, row: FamilyRow) -> Family:
        with self._lock:
            return self._families.get(row.digest, lambda: parsed(row.document))

    def space(self, search: SearchRow) -> Space:
        """Return the space of a search. The row may still lack its id.

        Raises:
            EmptySpace: no config is valid; names the constraint that removed the last points.
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
    """Return the metric that a search optimises; None if it minimises the time. The row may still lack its id.

    Raises:
        InvalidInput: the metric is not an expression.
    """
    flops, moved = _work(search, search.objective.metric)
    return Goal.of(search.objective, search.problem, flops=flops, moved=moved)


def second_goal_of(search: SearchRow) -> Goal | None:
    """Return the second objective of a search; None if it has only one. The row may still lack its id.

    Raises:
        InvalidInput: it is not an expression, or the first objective.
    """
    flops, moved = _work(search, search.objective.second_metric)
    return Goal.second(search.objective, search.problem, flops=flops, moved=moved)


def _work(search: SearchRow, metric: str | None) -> tuple[float | None, float | None]:
    """Return operations and bytes of a call, where a metric may need them."""
    work = None if metric is None else parsed(search.family.document).work(search.problem)
    return (None, None) if work is None else (work.flops, work.bytes)


def parsed(document: Mapping[str, Any]) -> Family:
    """Parse a family's document.

    Raises:
        InvalidInput: names the place in the document.
    """
    return Family.from_document(dict(document), where="document")
