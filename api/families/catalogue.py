"""Families as the service knows them: built from their documents, without running any of their code."""

import threading
from collections.abc import Mapping
from typing import Any

from db.models import FamilyRow, SearchRow
from evo.estimate.target import aimed_at
from evo.family import Family
from evo.latest import Latest
from evo.space import Space

KEPT_FAMILIES = 256
KEPT_SPACES = 8
"""Spaces kept in memory: listing the valid points of a large one takes a second."""


class Catalogue:
    """Families and spaces built once and kept. Safe to share between threads."""

    def __init__(self) -> None:
        self._families: Latest[str, Family] = Latest(KEPT_FAMILIES)
        self._spaces: dict[tuple[str, ...], Space] = {}
        self._lock = threading.Lock()

    def family(self, row: FamilyRow) -> Family:
        with self._lock:
            return self._families.get(row.digest, lambda: parsed(row.document))

    def space(self, search: SearchRow) -> Space:
        """The space of a search; its row needs no id yet.

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


def parsed(document: Mapping[str, Any]) -> Family:
    """A family from its document; what is wrong with one is the sender's to know.

    Raises:
        InvalidInput: names the place in the document.
    """
    return Family.from_document(dict(document), where="document")
