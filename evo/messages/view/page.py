"""Parts of lists, and what was collected."""

from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was taken out of database and artefact store.

    Attributes:
        searches_thinned: champions rest on them; only the reports on their other trials went.
        workers_deleted: not heard of for that long, without leases and devices set aside.
        tokens_deleted: refused for that long.
        families_deleted: uploaded versions that no search used, and that are not the latest.
        files_deleted: of the artefact store, which no row names.
        bytes_kept: of artefacts, where they were counted.
    """

    searches_deleted: int = 0
    searches_thinned: int = 0
    workers_deleted: int = 0
    tokens_deleted: int = 0
    families_deleted: int = 0
    artefacts_deleted: int = 0
    files_deleted: int = 0
    bytes_freed: int = 0
    bytes_kept: int | None = None


Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a list; `next` is the cursor of the following part, None at the end."""

    items: tuple[Item, ...]
    next: str | None = None
