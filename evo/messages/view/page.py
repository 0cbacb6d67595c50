"""One page of a list, and the result of a clean-up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar


class Deferred:
    """Base class of messages whose Pydantic schema is built when it is first used, not at startup.

    Dozens of routes return the same few large views. If the schemas of all routes were built at startup, the service
    would start more slowly.
    """

    __pydantic_config__: ClassVar[Mapping[str, bool]] = {"defer_build": True}


@dataclass(frozen=True, kw_only=True)
class Collected:
    """Counts of the items that a clean-up removed from the database and the artefact store.

    Attributes:
        searches_thinned: searches that were kept because they found a champion; only reports on their other trials were
            removed.
        workers_deleted: workers that were silent for the given time and had no leases and no quarantined devices.
        tokens_deleted: tokens that were invalid for the given time.
        families_deleted: family versions that no search or champion uses. The latest version of each family and the
            built-in families are kept.
        files_deleted: files of the artefact store that no database row referred to.
        bytes_kept: bytes of the remaining artefacts; None if they were not counted.
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
    """One page of a list. `next` is the cursor of the next page, None on the last page."""

    items: tuple[Item, ...]
    next: str | None = None
