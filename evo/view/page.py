"""Parts of lists, and what was collected."""

from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was taken out of database and artefact store.

    Attributes:
        searches_thinned: champions rest on them; only the reports on their other trials went.
        bytes_kept: of artefacts, where they were counted.
    """

    searches_deleted: int = 0
    searches_thinned: int = 0
    artefacts_deleted: int = 0
    bytes_freed: int = 0
    bytes_kept: int | None = None


Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a list; `next` is the cursor of the following part, None at the end."""

    items: tuple[Item, ...]
    next: str | None = None
